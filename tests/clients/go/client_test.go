// P4Runtime as p4runtime-go-client speaks it, against a reprise-switch of each test's own: what is read is what was
// written, errors carry code and message, packets go out and come in.
package client_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/antoninbas/p4runtime-go-client/pkg/client"
	"github.com/antoninbas/p4runtime-go-client/pkg/util/conversion"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	deviceID     = 1
	patience     = 120 * time.Second
	toController = 0xff
	toDigest     = 1
)

var (
	root = filepath.Join("..", "..", "..")
	p4i  = filepath.Join(root, "testdata", "compiler", "ok", "every_entity.p4info.txtpb")
	json = filepath.Join(root, "testdata", "compiler", "ok", "every_entity.json")
	dst  = []byte{2, 0, 0, 0, 0, 7}

	later = regexp.MustCompile(`initial_default_action \{[^}]*\}|has_initial_entries: true`)
)

// A switch that runs, whose ports 2 and 3 are UDP sockets that reach each other. The program sends what is not for
// the controller to port 1, which is not there.
type running struct {
	grpc string
	udp  map[int]uint16
}

func start(t *testing.T) running {
	t.Helper()
	programs := os.Getenv("REPRISE_PROGRAMS")
	if programs == "" {
		programs = filepath.Join(root, "target", "release")
	}
	command := exec.Command(filepath.Join(programs, "reprise-switch"), "--grpc", "127.0.0.1:0", "--device-id", strconv.Itoa(deviceID),
		"-i", "2@udp:127.0.0.1:0", "-i", "3@udp:127.0.0.1:0")
	stderr, err := command.StderrPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() {
		must(t, command.Process.Signal(os.Interrupt))
		if err := command.Wait(); err != nil {
			t.Errorf("the switch ended with %v", err)
		}
	})
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "ready: ") {
	}
	ready := lines.Text()
	address := regexp.MustCompile(`P4Runtime on ([0-9.]+:[0-9]+)`).FindStringSubmatch(ready)
	if address == nil {
		t.Fatalf("expected where P4Runtime is served, found %q", ready)
	}
	found := running{address[1], map[int]uint16{}}
	for _, port := range regexp.MustCompile(`(\d+)@udp:127\.0\.0\.1:(\d+)`).FindAllStringSubmatch(ready, -1) {
		number, err := strconv.Atoi(port[1])
		must(t, err)
		udp, err := strconv.ParseUint(port[2], 10, 16)
		must(t, err)
		found.udp[number] = uint16(udp)
	}
	return found
}

// A frame that leaves by any port as a datagram and comes back in on the port `to`. The program finds its marks
// where IPv4's header begins: the last of them, the kind of the packet, is the last byte of the datagram's length.
func (s running) frame(to int, kind byte) []byte {
	length := uint16(kind)
	if kind < 28 {
		length += 0x100
	}
	mac := []byte{2, 0, 127, 0, 0, 1}
	frame := append(append(append([]byte{}, mac...), mac...), 8, 0)
	frame = append(frame, 0x45, 0)
	frame = binary.BigEndian.AppendUint16(frame, length)
	frame = append(frame, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1)
	frame = binary.BigEndian.AppendUint16(frame, s.udp[to])
	frame = binary.BigEndian.AppendUint16(frame, s.udp[to])
	frame = binary.BigEndian.AppendUint16(frame, length-20)
	return append(frame, make([]byte, 2+int(length)-28)...)
}

// A client with a stream.
type controller struct {
	*client.Client
	primary  chan bool
	messages chan *p4.StreamMessageResponse
}

func connect(t *testing.T, s running, electionID *p4.Uint128) (context.Context, controller) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	conn, err := grpc.DialContext(ctx, s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	stub := p4.NewP4RuntimeClient(conn)
	found := controller{
		client.NewClient(stub, deviceID, electionID),
		make(chan bool, 8),
		make(chan *p4.StreamMessageResponse, 8),
	}
	stop, ended := make(chan struct{}), make(chan error)
	go func() { ended <- found.Run(stop, found.primary, found.messages) }()
	t.Cleanup(func() {
		close(stop)
		if err := <-ended; err != nil {
			t.Errorf("the stream ended with %v", err)
		}
		conn.Close()
		cancel()
	})
	return ctx, found
}

// A primary controller that has brought the program.
func begin(t *testing.T, s running) (context.Context, controller) {
	t.Helper()
	ctx, c := connect(t, s, &p4.Uint128{High: 1, Low: 0})
	if !<-c.primary {
		t.Fatal("expected to be primary")
	}
	device, info := program(t)
	_, err := c.SetFwdPipeFromBytes(ctx, device, info, 7)
	must(t, err)
	return ctx, c
}

// The device config, and the P4Info without what came after this client's version of P4Runtime: it takes no text
// with fields that it does not know.
func program(t *testing.T) (device, info []byte) {
	t.Helper()
	device, err := os.ReadFile(json)
	must(t, err)
	info, err = os.ReadFile(p4i)
	must(t, err)
	return device, later.ReplaceAll(info, nil)
}

func (c controller) next(t *testing.T) *p4.StreamMessageResponse {
	t.Helper()
	select {
	case message := <-c.messages:
		return message
	case <-time.After(patience):
		t.Fatal("expected a message on the stream, found none")
		return nil
	}
}

func (c controller) send(t *testing.T, ctx context.Context, payload []byte) {
	t.Helper()
	must(t, c.SendPacketOut(ctx, &p4.PacketOut{
		Payload: payload,
		Metadata: []*p4.PacketMetadata{
			{MetadataId: 1, Value: []byte{3}},
			{MetadataId: 2, Value: []byte{0}},
		},
	}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The code of the only update of a Write that must not succeed, from its details.
func refused(t *testing.T, err error, expected codes.Code) {
	t.Helper()
	said, ok := status.FromError(err)
	if !ok || said.Code() != codes.Unknown {
		t.Fatalf("expected an UNKNOWN with details, found %v", err)
	}
	details := said.Details()
	if len(details) != 1 {
		t.Fatalf("expected one p4.v1.Error, found %v", details)
	}
	one, ok := details[0].(*p4.Error)
	if !ok || codes.Code(one.CanonicalCode) != expected || one.Message == "" {
		t.Fatalf("expected %v and a message, found %v", expected, details[0])
	}
}

func equal(t *testing.T, found, expected proto.Message) {
	t.Helper()
	if !proto.Equal(found, expected) {
		t.Fatalf("expected %v\nfound %v", expected, found)
	}
}

func exact(value []byte) map[string]client.MatchInterface {
	return map[string]client.MatchInterface{"hdr.ethernet.dst_addr": &client.ExactMatch{Value: value}}
}

// spec: set-pipeline.verify, set-pipeline.save, get-pipeline
func TestThePipelineIsSetSavedAndReadBack(t *testing.T) {
	ctx, c := begin(t, start(t))
	found, err := c.GetFwdPipe(ctx, client.GetFwdPipeAll)
	must(t, err)
	device, info := program(t)
	if found.Cookie != 7 || !bytes.Equal(found.P4DeviceConfig, device) {
		t.Fatalf("expected cookie 7 and the device config, found %d", found.Cookie)
	}
	_, err = c.SaveFwdPipeFromBytes(ctx, device, info, 8)
	must(t, err)
	_, err = c.CommitFwdPipe(ctx)
	must(t, err)
	found, err = c.GetFwdPipe(ctx, client.GetFwdPipeCookieOnly)
	must(t, err)
	if found.Cookie != 8 {
		t.Fatalf("expected cookie 8, found %d", found.Cookie)
	}
	_, err = c.SetFwdPipeFromBytes(ctx, []byte("no program"), info, 9)
	if status.Code(err) != codes.InvalidArgument {
		t.Fatalf("expected INVALID_ARGUMENT, found %v", err)
	}
}

// spec: table-entry.insert-modify-delete, table-entry.default
func TestEntriesAreInsertedReadModifiedAndDeleted(t *testing.T) {
	ctx, c := begin(t, start(t))
	key := exact([]byte{0, 0, 0, 0, 0, 0x99})
	entry := c.NewTableEntry("I.begun", key, c.NewTableActionDirect("I.mark", [][]byte{{5}}), nil)
	must(t, c.InsertTableEntry(ctx, entry))
	refused(t, c.InsertTableEntry(ctx, entry), codes.AlreadyExists)
	found, err := c.ReadTableEntry(ctx, "I.begun", []client.MatchInterface{&client.ExactMatch{Value: []byte{0x99}}})
	must(t, err)
	equal(t, found, entry)
	entry.Action = c.NewTableActionDirect("I.mark", [][]byte{{6}})
	must(t, c.ModifyTableEntry(ctx, entry))
	all, err := c.ReadTableEntryWildcard(ctx, "I.begun")
	must(t, err)
	if len(all) != 3 {
		t.Fatalf("expected the entry and two of the program, found %v", all)
	}
	must(t, c.DeleteTableEntry(ctx, entry))
	refused(t, c.DeleteTableEntry(ctx, entry), codes.NotFound)

	ternary := map[string]client.MatchInterface{
		"hdr.ethernet.dst_addr": &client.TernaryMatch{Value: []byte{0x10}, Mask: []byte{0xf0}},
	}
	entry = c.NewTableEntry("I.ordered", ternary, c.NewTableActionDirect("I.mark", [][]byte{{1}}),
		&client.TableEntryOptions{Priority: 3})
	must(t, c.InsertTableEntry(ctx, entry))
	all, err = c.ReadTableEntryWildcard(ctx, "I.ordered")
	must(t, err)
	equal(t, all[0], entry)

	// Without a key it is the default entry.
	entry = c.NewTableEntry("I.ordered", nil, c.NewTableActionDirect("I.mark", [][]byte{{9}}), nil)
	must(t, c.ModifyTableEntry(ctx, entry))
	refused(t, c.InsertTableEntry(ctx, entry), codes.InvalidArgument)
	wrong := c.NewTableEntry("I.begun", key, c.NewTableActionDirect("I.send", [][]byte{{1}}), nil)
	refused(t, c.InsertTableEntry(ctx, wrong), codes.InvalidArgument)
}

// spec: action-profile.members, action-profile.groups, action-profile.one-shot
func TestMembersGroupsAndOneShots(t *testing.T) {
	ctx, c := begin(t, start(t))
	member := c.NewActionProfileMember("I.spread", 1, "I.mark", [][]byte{{1}})
	must(t, c.InsertActionProfileMember(ctx, member))
	watch := &p4.ActionProfileGroup_Member_WatchPort{WatchPort: client.NewPortFromInt(2).AsBytes()}
	members := []*p4.ActionProfileGroup_Member{{MemberId: 1, Weight: 2, WatchKind: watch}}
	group := c.NewActionProfileGroup("I.spread", 5, members, 0)
	must(t, c.InsertActionProfileGroup(ctx, group))
	found, err := c.ReadEntitySingle(ctx, &p4.Entity{Entity: &p4.Entity_ActionProfileGroup{
		ActionProfileGroup: &p4.ActionProfileGroup{},
	}})
	must(t, err)
	equal(t, found.GetActionProfileGroup(), group)
	entry := c.NewTableEntry("I.many", exact(dst), c.NewTableActionGroup(5), nil)
	must(t, c.InsertTableEntry(ctx, entry))
	refused(t, c.DeleteActionProfileGroup(ctx, group), codes.FailedPrecondition)
	entry.Action = c.NewTableActionMember(1)
	must(t, c.ModifyTableEntry(ctx, entry))
	must(t, c.DeleteActionProfileGroup(ctx, group))
	refused(t, c.DeleteActionProfileMember(ctx, member), codes.FailedPrecondition)

	set := c.NewActionProfileActionSet().
		AddAction("I.mark", [][]byte{{1}}, 2, client.NewPortFromInt(3)).
		AddAction("I.send", [][]byte{{2}}, 1, client.NewPortFromInt(2))
	entry = c.NewTableEntry("I.few", exact(dst), set.TableAction(), nil)
	must(t, c.InsertTableEntry(ctx, entry))
	all, err := c.ReadTableEntryWildcard(ctx, "I.few")
	must(t, err)
	equal(t, all[0], entry)
}

// spec: counter.indexed, meter.indexed
func TestCountersAndMeters(t *testing.T) {
	ctx, c := begin(t, start(t))
	counts := &p4.CounterData{PacketCount: 3, ByteCount: 99}
	must(t, c.ModifyCounterEntry(ctx, "I.counts", 5, counts))
	found, err := c.ReadCounterEntry(ctx, "I.counts", 5)
	must(t, err)
	equal(t, found, counts)
	all, err := c.ReadCounterEntryWildcard(ctx, "I.counts")
	must(t, err)
	if len(all) != 8 || all[5].PacketCount != 3 || all[4].PacketCount != 0 {
		t.Fatalf("expected eight cells, found %v", all)
	}
	refused(t, c.ModifyCounterEntry(ctx, "I.counts", 8, counts), codes.OutOfRange)
	meters, err := c.ReadMeterEntryWildcard(ctx, "I.rates")
	must(t, err)
	if len(meters) != 8 {
		t.Fatalf("expected eight cells, found %v", meters)
	}
}

// spec: multicast.groups, clone-session.sessions
func TestGroupsAndSessions(t *testing.T) {
	ctx, c := begin(t, start(t))
	must(t, c.InsertMulticastGroup(ctx, 9, []uint32{1, 2}))
	refused(t, c.InsertMulticastGroup(ctx, 9, []uint32{1}), codes.AlreadyExists)
	must(t, c.DeleteMulticastGroup(ctx, 9))
	refused(t, c.DeleteMulticastGroup(ctx, 9), codes.NotFound)
	must(t, c.InsertCloneSession(ctx, 5, []uint32{1, 2}, client.CloneSessionOptions{ClassOfService: 3, PacketLenBytes: 64}))
	must(t, c.DeleteCloneSession(ctx, 5))
}

// spec: packet-io.out, packet-io.in, stream.errors
func TestPacketsGoOutAndComeIn(t *testing.T) {
	s := start(t)
	ctx, c := begin(t, s)
	for port := 2; port <= 3; port++ {
		c.send(t, ctx, s.frame(port, toController))
		packet := c.next(t).GetPacket()
		if packet == nil || len(packet.Payload) != len(s.frame(port, toController)) {
			t.Fatalf("expected the packet, found %v", packet)
		}
		ingress, err := conversion.UInt32ToBinaryCompressed(uint32(port))
		must(t, err)
		if !bytes.Equal(packet.Metadata[0].Value, ingress) {
			t.Fatalf("expected port %d, found %v", port, packet.Metadata)
		}
	}
	must(t, c.SendPacketOut(ctx, &p4.PacketOut{Payload: []byte{1}}))
	if said := c.next(t).GetError(); said.GetCanonicalCode() != int32(codes.InvalidArgument) {
		t.Fatalf("expected a StreamError, found %v", said)
	}
}

// spec: digest.lists, digest.acknowledgements
func TestDigestsAreToldAgainOnceAcknowledged(t *testing.T) {
	s := start(t)
	ctx, c := begin(t, s)
	config := &p4.DigestEntry_Config{MaxListSize: 1, AckTimeoutNs: int64(time.Hour)}
	must(t, c.EnableDigest(ctx, "seen_t", config))
	for i := 0; i < 2; i++ {
		c.send(t, ctx, s.frame(2, toDigest))
		list := c.next(t).GetDigest()
		if len(list.GetData()) != 1 || len(list.Data[0].GetStruct().GetMembers()) != 3 {
			t.Fatalf("expected one digest of three members, found %v", list)
		}
		must(t, c.AckDigestList(ctx, list))
	}
	config.MaxListSize = 4
	must(t, c.ModifyDigest(ctx, "seen_t", config))
	must(t, c.DisableDigest(ctx, "seen_t"))
	refused(t, c.DisableDigest(ctx, "seen_t"), codes.NotFound)
}

// spec: arbitration.primary, arbitration.128-bit, arbitration.only-primary
func TestABackupReadsAndDoesNotWrite(t *testing.T) {
	s := start(t)
	_, first := begin(t, s)
	ctx, second := connect(t, s, &p4.Uint128{High: 0, Low: 1<<64 - 1})
	if <-second.primary {
		t.Fatal("expected to be backup: the high half counts more")
	}
	if code := status.Code(second.InsertMulticastGroup(ctx, 1, nil)); code != codes.PermissionDenied {
		t.Fatalf("expected PERMISSION_DENIED, found %v", code)
	}
	_, err := second.GetFwdPipe(ctx, client.GetFwdPipeP4InfoAndCookie)
	must(t, err)
	_, third := connect(t, s, &p4.Uint128{High: 1, Low: 1})
	if !<-third.primary || <-first.primary {
		t.Fatal("expected the third to take the first one's place")
	}
}
