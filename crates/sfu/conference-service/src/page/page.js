// Shows the conferences that a token is for, and what administrators may do. All texts of people go through textContent.

const STORED = "reprise.token";
const REQUEST_MS = 10_000;
/** How long after an event the page reads the conference again. Events come in bursts; one reading serves a burst. */
const READ_AFTER_MS = 100;
const LIST_EVERY_MS = 15_000;
/** How often the page reads the conference for its rates, which are those of the last second. A hidden page does not. */
const RATES_EVERY_MS = 2_000;
const RETRY_MS = 1_000;
const RETRY_MS_MAX = 15_000;
const EVENTS_MAX = 100;

const byId = (id) => document.getElementById(id);
const numbers = new Intl.NumberFormat();
/** With a word joiner, so that no line ends within the unit. */
const KBIT_PER_S = "kbit/\u2060s";
const threeDigits = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const dayAndTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** The token and its claims; null if nobody has signed in. */
let session = null;
/** The name of the conference that the page shows. */
let shown = "";
let stream = null;
/** Counts readings: the page ignores the answer to a reading if it has begun a later one. */
let n_reads = 0;
let timers = { read: 0, retry: 0 };
let retry_ms = RETRY_MS;
/** Whether the alert that the page shows says that the service does not answer. */
let is_away = false;

class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function request(method, path, body) {
  const headers = { Authorization: `Bearer ${session.token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(["/v1", ...path.map(encodeURIComponent)].join("/"), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_MS),
      cache: "no-store",
    });
  } catch {
    throw new Problem(0, "The service does not answer. Is it running, and can this machine reach it?");
  }
  const text = await response.text();
  let content = null;
  try {
    content = text ? JSON.parse(text) : null;
  } catch {
    content = null;
  }
  if (!response.ok) throw new Problem(response.status, content?.detail ?? `The service answered with status ${response.status}.`);
  return content;
}

/** Returns a token's claims. It does not check the signature; the service does. */
function claimsOf(token) {
  const part = token.split(".")[1] ?? "";
  const bytes = Uint8Array.from(atob(part.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const claims = JSON.parse(new TextDecoder().decode(bytes));
  if (typeof claims !== "object" || claims === null) throw new Error("no object");
  return claims;
}

const administers = (conference) =>
  Boolean(session.claims.grants?.administer) && [undefined, null, conference].includes(session.claims.conference);
const administersAll = () => Boolean(session.claims.grants?.administer) && !session.claims.conference;
const isMe = (conference, participant) =>
  session.claims.sub === participant && [undefined, null, conference].includes(session.claims.conference);

function setText(element, text) {
  // If the same text were written again, a screen reader would read it out again.
  if (element.textContent !== text) element.textContent = text;
}

function say(text) {
  is_away = false;
  const alert = byId("alert");
  alert.hidden = !text;
  setText(alert, text);
}

function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

/**
 * Brings a list to these items. Elements whose item is still there are kept, so focus stays where it is; focus of an element
 * that goes moves to `otherwise`.
 */
function keep(list, items, create, update, otherwise) {
  const keys = new Set(items.map(([key]) => key));
  const old = new Map();
  for (const element of [...list.children]) {
    if (keys.has(element.dataset.key)) {
      old.set(element.dataset.key, element);
      continue;
    }
    const had_focus = element.contains(document.activeElement);
    element.remove();
    if (had_focus) otherwise?.focus();
  }
  let before = list.firstElementChild;
  for (const [key, item] of items) {
    let element = old.get(key);
    if (!element) {
      element = create(key);
      element.dataset.key = key;
    }
    // An element that is moved loses the focus.
    if (element === before) before = before.nextElementSibling;
    else list.insertBefore(element, before);
    update(element, item, key);
  }
}

function mark(parent, text, kind = "") {
  parent.append(" ", make("span", `mark ${kind}`.trim(), text));
}

/** Asks in a dialog; returns whether the person has chosen "yes". */
function confirmed(text, yes) {
  const dialog = byId("confirm");
  byId("confirm-text").textContent = text;
  byId("confirm-yes").textContent = yes;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** Makes a button's change, unless its last one is still under way, and shows why the service refuses it. */
async function act(button, change) {
  if (button.getAttribute("aria-disabled") === "true") return;
  // A disabled button would lose the focus, so the button is only marked as disabled.
  button.setAttribute("aria-disabled", "true");
  try {
    say("");
    await change();
  } catch (error) {
    failed(error);
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

function failed(error) {
  if (error.status === 401) {
    signOut(error.message);
  } else {
    say(error.message);
    is_away = error.status === 0;
  }
}

// The list of conferences.

async function readList() {
  const all = await request("GET", ["conferences"]);
  const items = all.map((it) => [it.name, it]);
  keep(byId("list"), items, createListed, updateListed, byId("list-title"));
  const none = byId("none");
  none.hidden = all.length > 0;
  setText(
    none,
    administersAll() ? "There is none yet." : `Conference ${session.claims.conference} has not been made yet, or has ended.`,
  );
  if (!shown && all.length > 0) {
    const asked = all.find((it) => it.name === askedFor());
    show((asked ?? all[0]).name);
  }
}

function createListed(name) {
  const item = document.createElement("li");
  const link = make("a");
  link.href = hashOf(name);
  link.append(make("strong"), make("span", "quiet"));
  link.firstChild.dir = "auto";
  item.append(link);
  return item;
}

function updateListed(item, conference, name) {
  const [title, about] = item.firstChild.children;
  const n = Object.keys(conference.participants).length;
  setText(title, conference.title || name);
  setText(about, `${conference.title ? `${name}, ` : ""}${count(n, "participant")}`);
  if (name === shown) item.firstChild.setAttribute("aria-current", "page");
  else item.firstChild.removeAttribute("aria-current");
}

const count = (n, what) => `${numbers.format(n)} ${what}${n === 1 ? "" : "s"}`;

// The page of one conference.

// No name of a conference has "/", and no element's id: the two do not mix.
const hashOf = (name) => `#/${name}`;
const askedFor = () => (location.hash.startsWith("#/") ? location.hash.slice(2) : "");

function show(name) {
  shown = name;
  history.replaceState(null, "", hashOf(name));
  for (const link of byId("list").querySelectorAll("a")) {
    if (link.hash === hashOf(name)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  byId("events").replaceChildren();
  retry_ms = RETRY_MS;
  follow();
}

function close(text) {
  shown = "";
  n_reads += 1;
  closeStream();
  if (byId("main").contains(document.activeElement)) byId("list-title").focus();
  byId("end").hidden = true;
  setText(byId("conference-title"), text);
  setText(byId("about"), "");
  live("", "");
  byId("nobody").hidden = true;
  byId("participants").replaceChildren();
}

function live(kind, text) {
  const element = byId("live");
  element.className = `live ${kind}`.trim();
  element.hidden = !text;
  setText(element, text);
}

function readSoon() {
  clearTimeout(timers.read);
  timers.read = setTimeout(() => readConference().catch(failed), READ_AFTER_MS);
}

async function readConference() {
  const name = shown;
  if (!name) return;
  n_reads += 1;
  const number = n_reads;
  try {
    const conference = await request("GET", ["conferences", name]);
    if (number === n_reads) showConference(conference);
  } catch (error) {
    if (number !== n_reads) return;
    if (error.status === 404) {
      close("No conference chosen");
      say(`Conference ${name} has ended, or was never made.`);
      await readList();
    } else {
      throw error;
    }
  }
}

function showConference(conference) {
  const participants = Object.entries(conference.participants);
  setText(byId("conference-title"), conference.title || conference.name);
  document.title = `${conference.title || conference.name} – Reprise conferences`;
  const since = dayAndTime.format(conference.created_ms);
  setText(byId("about"), `${conference.name}, ${count(participants.length, "participant")}, made ${since}`);
  byId("end").hidden = !administers(conference.name);
  byId("nobody").hidden = participants.length > 0;
  const update = (item, participant, name) => updateParticipant(item, conference, participant, name);
  keep(byId("participants"), participants, createParticipant, update, byId("participants-title"));
}

function createParticipant(name) {
  const item = make("li", "participant");
  const who = make("div", "who");
  const names = document.createElement("div");
  const title = make("h4");
  title.dir = "auto";
  names.append(title, make("p", "quiet"));
  const remove = make("button", "danger");
  remove.type = "button";
  remove.addEventListener("click", () => act(remove, () => removeParticipant(name)));
  who.append(names, remove);
  item.append(who);
  for (const heading of ["Publishes", "Receives"]) {
    const part = document.createElement("div");
    const list = make("ul", "rows");
    list.setAttribute("aria-label", `${name} ${heading.toLowerCase()}`);
    part.append(make("h5", "", heading), list);
    item.append(part);
  }
  return item;
}

async function removeParticipant(name) {
  const conference = shown;
  const mine = isMe(conference, name);
  const question = mine ? `Leave conference ${conference}?` : `Remove ${name} from conference ${conference}?`;
  if (!(await confirmed(question, mine ? "Leave" : "Remove"))) return;
  await request("DELETE", ["conferences", conference, "participants", name]);
  await readConference();
}

function updateParticipant(item, conference, participant, name) {
  const [who, publishes, receives] = item.children;
  const [names, remove] = who.children;
  const mine = isMe(conference.name, name);
  setText(names.children[0], participant.display_name || name);
  setText(names.children[1], `${name}${mine ? " (you)" : ""}, joined ${clock.format(participant.joined_ms)}`);
  setText(remove, mine ? "Leave" : "Remove");
  remove.setAttribute("aria-label", `${mine ? "Leave as" : "Remove"} ${name}`);
  remove.hidden = !mine && !administers(conference.name);
  const tracks = Object.entries(participant.tracks);
  publishes.hidden = tracks.length === 0;
  keep(
    publishes.children[1],
    tracks,
    (track) => createTrack(name, track),
    (row, it, track) => updateTrack(row, it, track, name),
    remove.hidden ? byId("participants-title") : remove,
  );
  const may_ask = mine || administers(conference.name);
  const subscriptions = participant.subscriptions.map((it) => [`${it.path.participant}/${it.path.track}`, it]);
  receives.hidden = subscriptions.length === 0;
  keep(
    receives.children[1],
    subscriptions,
    () => createSubscription(name, may_ask),
    (row, it) => updateSubscription(row, name, it, conference, participant.legs),
    remove.hidden ? byId("participants-title") : remove,
  );
}

function createTrack(participant, track) {
  const row = make("li", "row");
  const text = document.createElement("div");
  text.append(make("p", "title"), make("ul", "facts"));
  const mute = make("button");
  mute.type = "button";
  mute.addEventListener("click", () =>
    act(mute, async () => {
      const muted = mute.dataset.muted !== "yes";
      await request("PUT", ["conferences", shown, "participants", participant, "tracks", track, "mute"], { muted });
      await readConference();
    }),
  );
  row.append(text, mute);
  return row;
}

const KINDS = { audio: "audio", video: "video", screen: "screen", data: "data" };
const MUTED = { publisher: "muted by the publisher", administrator: "muted by an administrator" };

function updateTrack(row, track, name, participant) {
  const [text, mute] = row.children;
  const title = make("p", "title", name);
  mark(title, KINDS[track.kind] ?? track.kind);
  if (track.transport === "datagram") mark(title, "any datagram");
  if (track.muted_by) mark(title, MUTED[track.muted_by] ?? "muted", "warn");
  replaceIfOther(text.children[0], title);
  const facts = make("ul", "facts");
  for (const quality of track.qualities) {
    const fact = make("li", "", `${quality.name}, at most ${numbers.format(quality.max_kbps)} ${KBIT_PER_S}`);
    if (quality.signed_in) {
      mark(fact, "signed in", "good");
      fact.append(` ${numbers.format(quality.packets_per_s)} packets/s, ${numbers.format(quality.kbps)} ${KBIT_PER_S}`);
    } else {
      mark(fact, "not signed in", "warn");
    }
    if (quality.policed_packets) mark(fact, `${numbers.format(quality.policed_packets)} dropped: more than that`, "warn");
    facts.append(fact);
  }
  replaceIfOther(text.children[1], facts);
  mute.dataset.muted = track.muted_by ? "yes" : "no";
  setText(mute, track.muted_by ? "Unmute" : "Mute");
  mute.setAttribute("aria-label", `${track.muted_by ? "Unmute" : "Mute"} ${name} of ${participant}`);
  const is_own = isMe(shown, participant) && track.muted_by !== "administrator";
  mute.hidden = !is_own && !administers(shown);
}

function createSubscription(receiver, may_ask) {
  const row = make("li", "row");
  const button = make("button", "", "Why?");
  button.type = "button";
  button.hidden = !may_ask;
  const answer = make("div", "why");
  answer.setAttribute("role", "status");
  button.addEventListener("click", () =>
    act(button, async () => {
      const [publisher, track] = row.dataset.key.split("/");
      showWhy(answer, await request("GET", ["conferences", shown, "participants", receiver, "why", publisher, track]));
    }),
  );
  row.append(document.createElement("div"), button, answer);
  return row;
}

/** Shows why a receiver does not get a track, with the switch's counters at the publisher and at the receiver. */
function showWhy(answer, why) {
  const causes = why.causes.map(inWords);
  const lines = [causes.length > 0 ? `In the way: ${causes.join(", ")}.` : "Packets are forwarded."];
  if (why.next) lines.push(`What helps: ${why.next}.`);
  const { participant } = why.path;
  lines.push(`From ${participant}: ${traffic(why.publisher)}. To ${why.participant}: ${traffic(why.receiver)}.`);
  answer.replaceChildren(...lines.map((line) => make("p", "", line)));
}

function traffic(leg) {
  const last = leg.last_packet_ms ? `the last one at ${clock.format(leg.last_packet_ms)}` : "no media yet";
  const counts = `${count(leg.packets, "packet")}, ${numbers.format(leg.packets_per_s)}/s, ${numbers.format(leg.kbps)} ${KBIT_PER_S}`;
  return `${counts}, ${last}`;
}

function updateSubscription(row, receiver, subscription, conference, legs) {
  const { participant, track } = subscription.path;
  const there = conference.participants[participant]?.tracks[track];
  const text = make("div");
  const title = make("span", "title", `${participant}, ${track}`);
  text.append(title);
  mark(text, subscription.quality ?? "best quality");
  if (!there) mark(text, "not published now", "warn");
  else if (there.muted_by) mark(text, "muted", "warn");
  // Only the participant and administrators see legs.
  const leg = legs?.[subscription.leg];
  if (leg) mark(text, leg.signed_in_from ? "signed in" : "not signed in", leg.signed_in_from ? "good" : "warn");
  if (leg?.counted) text.append(factsOf(leg.counted));
  replaceIfOther(row.firstChild, text);
  row.children[1].setAttribute("aria-label", `Why? ${track} of ${participant}, at ${receiver}`);
}

/** Shows the switch's counters of a leg that receives. */
function factsOf({ received, port }) {
  const facts = make("ul", "facts");
  facts.append(make("li", "", `${numbers.format(received.packets_per_s)} packets/s, ${numbers.format(received.kbps)} ${KBIT_PER_S}`));
  if (port?.delay) facts.append(make("li", "", `In the switch for ${duration(port.delay.p50_ns)} (p50), ${duration(port.delay.p99_ns)} (p99)`));
  for (const [reason, drops] of Object.entries(port?.drops ?? {})) {
    facts.append(make("li", "", `Its port has dropped ${numbers.format(drops.packets)}: ${inWords(reason)}`));
  }
  return facts;
}

const inWords = (reason) => reason.replaceAll("_", " ");

/** A time in nanoseconds, for people: two or three digits. */
function duration(ns) {
  for (const [unit, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= unit) return `${threeDigits.format(ns / unit)} ${name}`;
  }
  return `${ns} ns`;
}

/** Replaces an element if the new one differs. Nothing in it can have the focus, so it need not be kept. */
function replaceIfOther(old, element) {
  if (!old.isEqualNode(element)) old.replaceWith(element);
}

// The switch, for administrators of all conferences.

async function readSwitch() {
  const counted = await request("GET", ["switch"]);
  const away = counted.connected ? "" : ": not connected, these are the last counts";
  setText(byId("switch-title"), `Switch ${counted.switch}${away}`);
  const ports = Object.entries(counted.ports);
  const lost = Object.entries(counted.drops).map(([reason, drops]) => [inWords(reason), drops]);
  for (const [port, { drops }] of ports) {
    lost.push(...Object.entries(drops).map(([reason, it]) => [`port ${port}: ${inWords(reason)}`, it]));
  }
  fill("losses", lost, ({ packets, packets_per_s, last_ms }) => [
    numbers.format(packets),
    numbers.format(packets_per_s),
    last_ms ? clock.format(last_ms) : "before",
  ]);
  const delays = ports.filter(([, { delay }]) => delay).map(([port, { delay }]) => [`port ${port}`, delay]);
  fill("delays", delays, (it) => [it.p50_ns, it.p99_ns, it.p999_ns, it.max_ns].map(duration));
  byId("switch").hidden = false;
}

/** Makes a table have these rows; hides it if there are none. */
function fill(table, rows, cellsOf) {
  const create = (key) => {
    const row = document.createElement("tr");
    const heading = make("th", "", key);
    heading.scope = "row";
    row.append(heading);
    return row;
  };
  const update = (row, item) => {
    cellsOf(item).forEach((text, i) => {
      if (!row.children[i + 1]) row.append(make("td"));
      setText(row.children[i + 1], text);
    });
  };
  keep(byId(table).tBodies[0], rows, create, update, byId("switch-title"));
  byId(table).parentElement.hidden = rows.length === 0;
}

// Events.

function closeStream() {
  clearTimeout(timers.retry);
  clearTimeout(timers.read);
  const was = stream;
  stream = null;
  was?.close();
}

function follow() {
  closeStream();
  const name = shown;
  live("", "Connecting…");
  const url = new URL(`/v1/conferences/${encodeURIComponent(name)}/events`, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  // Browsers send no header with a WebSocket: the token is the second subprotocol.
  const socket = new WebSocket(url, ["bearer", session.token]);
  stream = socket;
  socket.addEventListener("open", () => {
    if (socket !== stream) return;
    retry_ms = RETRY_MS;
    live("on", "Live");
    if (is_away) say("");
    // The page reads the conference after the stream is open, so that it misses no change.
    readSoon();
  });
  socket.addEventListener("message", (message) => {
    if (socket === stream) receive(JSON.parse(message.data));
  });
  socket.addEventListener("close", (end) => {
    if (socket === stream) ended(name, end.reason);
  });
}

function receive(event) {
  log(event.time_ms, textOf(event));
  if (event.event === "conference_ended") {
    close("No conference chosen");
    say(`Conference ${event.conference} has ended.`);
    readList().catch(failed);
    return;
  }
  readSoon();
  if (["joined", "left"].includes(event.event)) readList().catch(failed);
}

function ended(name, reason) {
  stream = null;
  const why = reason ? ` (${reason})` : "";
  live("off", `Not live${why}: trying again…`);
  timers.retry = setTimeout(() => {
    if (shown !== name) return;
    follow();
    // A browser does not say why a WebSocket was refused, so an ordinary request asks.
    readConference().catch(failed);
  }, retry_ms);
  retry_ms = Math.min(2 * retry_ms, RETRY_MS_MAX);
}

function log(time_ms, text) {
  const list = byId("events");
  const item = document.createElement("div");
  const time = make("time", "", clock.format(time_ms));
  time.dateTime = new Date(time_ms).toISOString();
  item.append(time, make("span", "", text));
  const is_at_end = list.scrollHeight - list.scrollTop - list.clientHeight < 8;
  list.append(item);
  while (list.children.length > EVENTS_MAX) list.firstElementChild.remove();
  if (is_at_end) list.scrollTop = list.scrollHeight;
}

const LEFT = {
  left: "",
  removed: ": an administrator removed it",
  expired: ": its token has expired",
  gone: ": it was silent for too long",
  conference_ended: ": the conference has ended",
};

function textOf(event) {
  const who = event.participant;
  const track = event.path ? `${event.path.track} of ${event.path.participant}` : "";
  switch (event.event) {
    case "conference_created": return "The conference was made";
    case "conference_ended": return "The conference has ended";
    case "joined": return `${who} has joined`;
    case "left": return `${who} has left${LEFT[event.reason] ?? ""}`;
    case "track_added": return `${track} can be received`;
    case "track_removed": return `${track} is gone`;
    case "muted": return `${track} is ${event.muted_by ? MUTED[event.muted_by] ?? "muted" : "no longer muted"}`;
    case "subscribed": return `${who} receives ${track} (${event.quality})`;
    case "unsubscribed": return `${who} no longer receives ${track}`;
    case "signed_in": return `${who}: leg ${event.leg} is signed in from ${event.route.address}, port ${event.route.udp_port}`;
    case "signed_out": return `${who}: leg ${event.leg} is not signed in any more`;
    case "why_not": return `${who}, ${track}: ${event.why.causes.join(", ").replaceAll("_", " ") || "is forwarded"}`;
    case "lost": return "Some events were left out";
    default: return `${event.event}`;
  }
}

// The drain, for administrators of all conferences.

let is_draining = false;

async function readDrain() {
  ({ draining: is_draining } = await request("GET", ["drain"]));
  const text = is_draining
    ? "It drains: it takes no new conferences and participants. Those that are there stay."
    : "It takes new conferences and participants.";
  setText(byId("drain-text"), text);
  setText(byId("drain"), is_draining ? "End the drain" : "Drain");
  byId("service").hidden = false;
}

byId("drain").addEventListener("click", () =>
  act(byId("drain"), async () => {
    const wanted = !is_draining;
    const ask = "Take no new conferences and participants until the drain is ended? Those that are there stay.";
    if (wanted && !(await confirmed(ask, "Drain it"))) return;
    await request("PUT", ["drain"], { draining: wanted });
    await readDrain();
  }),
);

// The token.

function signIn(token) {
  let claims;
  try {
    claims = claimsOf(token);
  } catch {
    signOut("This is no token: expected three parts of base64url with dots between them.");
    return;
  }
  session = { token, claims };
  sessionStorage.setItem(STORED, token);
  const who = claims.sub ? `${claims.sub}` : "Administrator";
  const of = claims.conference ? `conference ${claims.conference}` : "all conferences";
  const until = Number.isFinite(claims.exp) ? `, until ${dayAndTime.format(claims.exp * 1000)}` : "";
  setText(byId("who"), `${who}, ${of}${until}`);
  for (const id of ["who", "forget", "app"]) byId(id).hidden = false;
  byId("entrance").hidden = true;
  byId("make").hidden = !claims.grants?.administer;
  byId("switch").hidden = true;
  byId("service").hidden = true;
  byId("make-name").value = claims.conference ?? "";
  say("");
  close("No conference chosen");
  readList().catch(failed);
  if (administersAll()) readDrain().catch(failed);
}

function signOut(why) {
  session = null;
  sessionStorage.removeItem(STORED);
  history.replaceState(null, "", location.pathname);
  close("");
  byId("list").replaceChildren();
  byId("events").replaceChildren();
  for (const id of ["who", "forget", "app"]) byId(id).hidden = true;
  byId("entrance").hidden = false;
  byId("token").value = "";
  byId("token").focus();
  say(why);
}

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(byId("token").value.trim());
  if (session) byId("list-title").focus();
});
byId("forget").addEventListener("click", () => signOut(""));
byId("make-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  act(form.querySelector("button"), async () => {
    const name = byId("make-name").value.trim();
    await request("PUT", ["conferences", name], { title: byId("make-text").value.trim() });
    if (administersAll()) form.reset();
    byId("make").open = false;
    // The element that had the focus is gone.
    byId("make").firstElementChild.focus();
    await readList();
    show(name);
  });
});
byId("end").addEventListener("click", () =>
  act(byId("end"), async () => {
    const name = shown;
    if (!(await confirmed(`End conference ${name}, with everybody in it?`, "End it"))) return;
    await request("DELETE", ["conferences", name]);
  }),
);
addEventListener("hashchange", () => {
  const name = askedFor();
  if (!session || !name || name === shown) return;
  say("");
  show(name);
  byId("conference-title").focus();
});
// An event stream has only the events of one conference, so the list of conferences is read again and again.
setInterval(() => {
  if (!session || document.hidden) return;
  readList().catch(failed);
  if (administersAll()) readDrain().catch(failed);
}, LIST_EVERY_MS);

setInterval(() => {
  if (!session || !stream || document.hidden) return;
  if (shown) readConference().catch(failed);
  if (administersAll()) readSwitch().catch(failed);
}, RATES_EVERY_MS);

const stored = sessionStorage.getItem(STORED);
if (stored) signIn(stored);
else byId("entrance").hidden = false;
