//! Test runs: a program runs on given bytes, without an interface (`BPF_PROG_TEST_RUN`).

#![expect(unsafe_code, reason = "frames go to bpf(2) as addresses")]

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::Program;
use crate::sys::{ProgramTestRun, call, number};

/// Room for bytes that a program adds before or after a frame.
const GROWTH_BYTES: usize = 512;

/// `BPF_F_TEST_XDP_LIVE_FRAMES`
const LIVE_FRAMES: u32 = 1 << 1;

/// An XDP program's return value, `enum xdp_action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The program failed; the kernel drops the frame.
    Aborted,
    Drop,
    /// The frame goes on to the kernel's network stack.
    Pass,
    /// The frame leaves by the interface that received it.
    Transmit,
    /// The frame goes to the target of the last redirect helper call.
    Redirect,
    /// Not a value of `enum xdp_action`.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// The last run's verdict.
    pub verdict: Verdict,
    /// The frame after the last run.
    pub frame: Vec<u8>,
    /// The average duration of a run. Each run starts with the frame that the previous run left.
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
    /// Runs an XDP program `repeat` times on a frame of at least 14 bytes, as if the loopback interface had received
    /// it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn test_run(&self, frame: &[u8], repeat: u32) -> io::Result<TestRun> {
        self.run(frame, repeat, None)
    }

    /// Like `test_run`, but as if the interface with this index had received the frame. The first `n_metadata_bytes` of
    /// `frame` are metadata in front of the frame. The resulting frame begins with the resulting metadata.
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

    /// Runs the program on `n_frames` copies of `frame` and has the kernel carry out each verdict. The kernel sends
    /// frames to a device in batches of up to 64, and the device's receiver runs only after a whole batch.
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
