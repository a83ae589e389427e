//! Parses the command line.

const USAGE: &str = "\
usage: engines [OPTION NUMBER]...
  --packets N   packets that the interpreter is given (1000000)
  --seed N      where the random numbers begin (1)
  --choices N   choices of optimisations that each packet is compared with, in turn (8)
  --frames N    packets of one case (2000)
  --threads N   cases at the same time (one a core)
  --case N      this case alone, with every choice, as a difference names it
  --json        the result as JSON, on one line
";

/// Frames per case: compiling the choices and reading all state at the end cost as much as hundreds of packets.
const FRAMES_PER_CASE: u64 = 2_000;
/// Choices per case: together they take about as long as the interpreter.
const CHOICES_PER_CASE: u64 = 8;

#[derive(Debug, Clone)]
pub struct Arguments {
    pub packets: u64,
    pub seed: u64,
    pub choices: usize,
    pub frames: usize,
    pub threads: usize,
    pub case: Option<u64>,
    pub is_json: bool,
}

/// Why the example ends without a run.
pub enum Ended {
    Help(&'static str),
    Wrong(String),
}

impl Arguments {
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Self, Ended> {
        let mut packets = 1_000_000;
        let (mut seed, mut case, mut is_json) = (1, None, false);
        let (mut choices, mut frames) = (CHOICES_PER_CASE, FRAMES_PER_CASE);
        let mut threads = std::thread::available_parallelism().map_or(1, |it| it.get() as u64);
        let mut words = words;
        while let Some(option) = words.next() {
            let into = match option.as_str() {
                "--packets" => &mut packets,
                "--seed" => &mut seed,
                "--choices" => &mut choices,
                "--frames" => &mut frames,
                "--threads" => &mut threads,
                "--case" => case.insert(0),
                "--json" => {
                    is_json = true;
                    continue;
                }
                "--help" | "-h" => return Err(Ended::Help(USAGE)),
                other => return Err(Ended::Wrong(format!("unknown option `{other}`\n{USAGE}"))),
            };
            let text = words.next().unwrap_or_default();
            *into = text.parse().map_err(|_| {
                Ended::Wrong(format!("{option}: expected a number, found `{text}`"))
            })?;
        }
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
        Ok(Self {
            packets,
            seed,
            choices: count(choices),
            frames: count(frames),
            threads: count(threads),
            case,
            is_json,
        })
    }
}
