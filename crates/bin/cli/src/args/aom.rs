//! The command-line arguments of `reprise aom`, for authenticated ordered multicast.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Subcommand;
use conference::address::Mac;

/// A service's folder.
#[derive(clap::Args, Clone, Debug)]
pub struct StateFolder {
    /// The configuration service's folder: its state, its certificate authority, and the socket for commands.
    #[arg(
        long = "state",
        global = true,
        value_name = "DIR",
        env = "REPRISE_AOM_STATE",
        default_value = "aom-state"
    )]
    pub folder: PathBuf,
}

#[derive(Subcommand, Debug)]
pub enum Aom {
    /// Run the configuration service of one sequencer, until SIGTERM or Ctrl-C
    Serve(Serve),
    /// Add, remove and show groups
    Group {
        #[command(flatten)]
        state: StateFolder,
        #[command(subcommand)]
        command: AomGroup,
    },
    /// Add and remove members; each change starts a new epoch of the group
    Member {
        #[command(flatten)]
        state: StateFolder,
        #[command(subcommand)]
        command: AomMember,
    },
    /// Start a new epoch
    Epoch {
        #[command(flatten)]
        state: StateFolder,
        #[command(subcommand)]
        command: AomEpoch,
    },
}

#[derive(clap::Args, Debug)]
pub struct Serve {
    /// The sequencer's program: p4/aom_hm.p4 (tags), or p4/aom_pk.p4 (signatures); P4 source, or compiled (.json)
    #[arg(long, value_name = "PROGRAM")]
    pub program: PathBuf,
    #[command(flatten)]
    pub state: StateFolder,
    /// The address of this host at which members connect
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
    /// The service's address in member files, if members reach it at another address than --listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub advertise: Option<SocketAddr>,
    /// The source MAC address of the sequencer's packets
    #[arg(long, default_value = "02:00:00:61:6f:6d")]
    pub mac: String,
    /// A port of the switch for hosts that are no members, for example senders; may be given several times
    #[arg(long = "port", value_name = "PORT")]
    pub ports: Vec<u16>,
    /// How long a new epoch waits for connected members to acknowledge it, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub ack_deadline_ms: u64,
    /// If the switch runs another program, replace that program and discard its entries
    #[arg(long)]
    pub replace_program: bool,
}

/// What authenticates a group's packets.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum AomVariant {
    /// AOM-HM: a tag for each receiver, computed in the switch.
    Tagged,
    /// AOM-PK: signatures by `reprise-signer` on a port of the switch.
    Signed,
}

#[derive(Subcommand, Debug)]
pub enum AomGroup {
    /// Add a group without members
    Add {
        /// The group's name: lower-case letters, digits and hyphens
        group: String,
        /// The group's number in packets, from 1 on; left out: a number that was never used
        #[arg(long)]
        id: Option<u16>,
        /// The address that requests are sent to, preferably IPv4 multicast; left out: requests go to the
        /// sequencer's address and carry the group's number
        #[arg(long)]
        address: Option<Ipv4Addr>,
        #[arg(long, value_enum, default_value_t = AomVariant::Tagged)]
        variant: AomVariant,
        /// The port of the switch that the signer is on
        #[arg(long, value_name = "PORT")]
        signer_port: Option<u16>,
        /// The signer's public key, 66 hexadecimal digits
        #[arg(long, value_name = "KEY")]
        signer_key: Option<aom_config::keys::PublicKey>,
        /// Deliver a message only when enough members have confirmed it, so that a faulty sequencer cannot
        /// give members different messages
        #[arg(long)]
        byzantine: bool,
    },
    /// Remove a group with its members
    Remove {
        /// The group's name
        group: String,
    },
    /// Show groups, their epochs and members
    Show {
        /// Show this group only
        group: Option<String>,
    },
}

#[derive(Subcommand, Debug)]
pub enum AomMember {
    /// Add a member and write its member file, with which a process joins the group
    Add {
        /// The group's name
        group: String,
        /// The member's name: lower-case letters, digits and hyphens
        member: String,
        /// The member's IPv4 address
        #[arg(long)]
        ip: Ipv4Addr,
        /// The UDP port at which the member receives
        #[arg(long, default_value_t = 60_005)]
        udp_port: u16,
        /// The member's MAC address
        #[arg(long)]
        mac: Mac,
        /// The port of the switch that the member is on
        #[arg(long, value_name = "PORT")]
        port: u16,
        /// The member file to write; it must not exist
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Remove a member; its process is informed, and receives no later message
    Remove {
        /// The group's name
        group: String,
        /// The member's name
        member: String,
    },
    /// Replace a lost or disclosed member file; the old one is refused
    File {
        /// The group's name
        group: String,
        /// The member's name
        member: String,
        /// The member file to write; it must not exist
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
}

#[derive(Subcommand, Debug)]
pub enum AomEpoch {
    /// Start a new epoch: new keys, and sequence numbers from 1 on
    Advance {
        /// The group's name
        group: String,
    },
}
