//! Runs of a program over bytes, without an interface (`BPF_PROG_TEST_RUN`).

#![expect(unsafe_code, reason = "frames go to bpf(2) as addresses")]

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::Program;
use crate::sys::{ProgramTestRun, call, number};

/// Room for what a program puts in front of a frame or behind it.
const GROWTH_BYTES: usize = 512;

/// `BPF_F_TEST_XDP_LIVE_FRAMES`
const LIVE_FRAMES: u32 = 1 << 1;

/// What an XDP program says is to become of a frame, `enum xdp_action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It failed.
    Aborted,
    /// Nothing.
    Drop,
    /// It goes on to the kernel.
    Pass,
    /// It leaves by the interface it came in by.
    Transmit,
    /// It goes where the helper that was called last says.
    Redirect,
    /// A number that is none of these.
    Other(u32),
}

impl From<u32> for Verdict {
    fn from(number: u32) -> Verdict {
        match number {
            0 => Verdict::Aborted,
            1 => Verdict::Drop,
            2 => Verdict::Pass,
            3 => Verdict::Transmit,
            4 => Verdict::Redirect,
            other => Verdict::Other(other),
        }
    }
}

/// What runs of a program came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// The last run's verdict.
    pub verdict: Verdict,
    /// The frame that the last run left.
    pub frame: Vec<u8>,
    /// Of a run on average; runs that are repeated begin with the frame that the one before left.
    pub duration: Duration,
}

/// `struct xdp_md`.
#[repr(C)]
#[derive(Default)]
struct Context {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_interface: u32,
    rx_queue: u32,
    egress_interface: u32,
}

impl Program {
    /// Runs an XDP program over a frame of at least 14 bytes, so often, as if it came by the loopback
    /// interface.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn test_run(&self, frame: &[u8], repeat: u32) -> io::Result<TestRun> {
        self.run(frame, repeat, None)
    }

    /// The same, as if the frame came by the interface, which runs in this network namespace.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn test_run_from(
        &self,
        frame: &[u8],
        repeat: u32,
        interface_index: u32,
    ) -> io::Result<TestRun> {
        let context = Context {
            data_end: u32::try_from(frame.len()).map_err(io::Error::other)?,
            ingress_interface: interface_index,
            ..Context::default()
        };
        self.run(frame, repeat, Some(&context))
    }

    /// The same, as if the frame's first bytes, so many, stood in front of it as metadata. What a run leaves
    /// there is in front of the frame that it left.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn test_run_behind(
        &self,
        frame: &[u8],
        n_metadata_bytes: u32,
        interface_index: u32,
        repeat: u32,
    ) -> io::Result<TestRun> {
        let context = Context {
            data: n_metadata_bytes,
            data_end: u32::try_from(frame.len()).map_err(io::Error::other)?,
            ingress_interface: interface_index,
            ..Context::default()
        };
        self.run(frame, repeat, Some(&context))
    }

    /// Runs the program over so many frames like this one, one after the other, and does with each what the
    /// program says. Up to 64 of them go to a device before its receiver has its turn.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn send(&self, frame: &[u8], n_frames: u32) -> io::Result<()> {
        let mut attributes = ProgramTestRun {
            program_fd: number(self.as_fd()),
            in_bytes: u32::try_from(frame.len()).map_err(io::Error::other)?,
            frame_in: frame.as_ptr() as u64,
            repeat: n_frames,
            flags: LIVE_FRAMES,
            ..ProgramTestRun::default()
        };
        // SAFETY: the frame is as long as said and lives through the call; the kernel writes nothing here.
        unsafe { call(&mut attributes) }?;
        Ok(())
    }

    fn run(&self, frame: &[u8], repeat: u32, context: Option<&Context>) -> io::Result<TestRun> {
        let mut out = vec![0; frame.len() + GROWTH_BYTES];
        let mut attributes = ProgramTestRun {
            program_fd: number(self.as_fd()),
            in_bytes: u32::try_from(frame.len()).map_err(io::Error::other)?,
            out_bytes: u32::try_from(out.len()).map_err(io::Error::other)?,
            frame_in: frame.as_ptr() as u64,
            frame_out: out.as_mut_ptr() as u64,
            repeat,
            context_in_bytes: context.map_or(0, |_| size_of::<Context>() as u32),
            context_in: context.map_or(0, |context| std::ptr::from_ref(context) as u64),
            ..ProgramTestRun::default()
        };
        // SAFETY: frames and context are as long as said and live through the call; the kernel writes
        // the outgoing frame only.
        unsafe { call(&mut attributes) }?;
        out.truncate(attributes.out_bytes as usize);
        Ok(TestRun {
            verdict: attributes.verdict.into(),
            frame: out,
            duration: Duration::from_nanos(u64::from(attributes.duration_ns)),
        })
    }
}
