//! How many bytes a leg (a participant's connection by one UDP socket) may still send. The test's oracle does not know
//! the exact number, only a lower and an upper bound of it.

/// How many bytes every leg may send at once, however low its rate is.
const BURST_MIN: u64 = 64 * 1024;

#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    bytes_per_s: u64,
    burst: u64,
    least: u64,
    most: u64,
    at_s: u64,
}

impl Bucket {
    /// Makes a full bucket.
    pub fn new(kbps: u32, now_s: u64) -> Bucket {
        let bytes_per_s = u64::from(kbps) * 125;
        let burst = (bytes_per_s / 10).max(BURST_MIN);
        Bucket {
            bytes_per_s,
            burst,
            least: burst,
            most: burst,
            at_s: now_s,
        }
    }

    /// Must be called when the leg's entry may have been written again, perhaps with another rate: a write fills the
    /// bucket.
    pub fn loosen(&mut self, kbps: u32, now_s: u64) {
        self.fill(now_s);
        let full = Bucket::new(kbps, now_s);
        let is_same = full.bytes_per_s == self.bytes_per_s;
        *self = Bucket {
            least: if is_same {
                self.least
            } else {
                self.least.min(full.burst)
            },
            ..full
        };
    }

    /// Must be called when the oracle cannot know how many bytes are left in the bucket.
    pub fn forget(&mut self) {
        (self.least, self.most) = (0, self.burst);
    }

    fn fill(&mut self, now_s: u64) {
        let seconds = now_s - self.at_s;
        if seconds == 0 {
            return;
        }
        let came = seconds * self.bytes_per_s;
        // The switch adds whole bytes, so one byte may be lost by rounding.
        self.least = self.burst.min(self.least + came - 1);
        self.most = self.burst.min(self.most + came + 1);
        self.at_s = now_s;
    }

    pub fn is_full(&mut self, now_s: u64) -> bool {
        self.fill(now_s);
        self.least == self.burst
    }

    /// Whether a packet is within the rate; `None` if that is not known.
    pub fn take(&mut self, len: u64, now_s: u64) -> Option<bool> {
        self.fill(now_s);
        if len <= self.least {
            self.least -= len;
            self.most -= len;
            return Some(true);
        }
        (len > self.most).then_some(false)
    }
}
