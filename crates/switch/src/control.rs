//! The threads beside the loop: P4Runtime and signals.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use dataplane::Program;
use p4runtime_proto::p4::v1::WriteRequest;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::SwitchError;
use crate::event_loop::EventLoop;
use crate::handle::LoopHandle;
use crate::options::Options;
use crate::program::LoadedProgram;

/// How long calls that are being answered may take when the switch stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// Threads for gRPC. Work on the switch is done by the loop; these encode and decode.
const N_THREADS: usize = 2;

/// Runs beside the loop until [`Control::stop`].
pub(crate) struct Control {
    runtime: Runtime,
    handle: LoopHandle,
    grpc_address: Option<SocketAddr>,
}

impl Control {
    /// Binds the address and begins to listen for signals.
    pub(crate) fn start(handle: LoopHandle, options: &Options) -> Result<Control, SwitchError> {
        let system = |operation| move |source| SwitchError::System { operation, source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(N_THREADS)
            .thread_name("control")
            .enable_all()
            .build()
            .map_err(system("start the control threads"))?;
        let listener = options.grpc_address().map(listen).transpose()?;
        let (_, grpc_address) = listener.unzip();
        {
            let _context = runtime.enter();
            let stops = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
            for stop in stops {
                let stop = stop.map_err(system("listen for signals"))?;
                runtime.spawn(stop_at_signal(stop, handle.clone()));
            }
        }
        Ok(Control {
            runtime,
            handle,
            grpc_address,
        })
    }

    /// Where P4Runtime is served.
    pub(crate) fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc_address
    }

    /// Gives the switch what the command line names. False if it was stopped meanwhile.
    pub(crate) fn configure(
        &self,
        event_loop: &mut EventLoop,
        options: &Options,
        program: Option<LoadedProgram>,
        _entries: Option<WriteRequest>,
    ) -> Result<bool, SwitchError> {
        let (Some(program), Some(path)) = (program, &options.program) else {
            return Ok(true);
        };
        let loaded =
            Program::from_json_str(&program.json).map_err(|error| SwitchError::Program {
                path: path.clone(),
                message: error.to_string(),
            })?;
        event_loop.switch_mut().set_program(loaded);
        Ok(true)
    }

    /// Ends the threads. The loop must be gone, so that nobody waits for it.
    pub(crate) fn stop(self) {
        self.runtime.shutdown_timeout(STOP_TIMEOUT);
    }
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), SwitchError> {
    let bind = || -> io::Result<_> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    };
    bind().map_err(|source| SwitchError::Listen { address, source })
}

/// The first signal stops the switch; one that comes while it does not stop ends the process.
async fn stop_at_signal(mut stop: Signal, handle: LoopHandle) {
    stop.recv().await;
    handle.stop();
    stop.recv().await;
    std::process::exit(1);
}
