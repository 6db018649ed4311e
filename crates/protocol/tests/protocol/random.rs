//! Random bytes from a seed, and what to do with them: commands that are right, and commands that
//! are nearly right.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub struct Random(u64);

impl Random {
    /// A generator for one test. Prints its seed; `EVENKEEL_SEED` sets another one.
    pub fn for_test(default_seed: u64) -> Self {
        let seed = match std::env::var("EVENKEEL_SEED") {
            Ok(seed) => seed.parse().expect("EVENKEEL_SEED must be a number"),
            Err(_) => default_seed,
        };
        println!("EVENKEEL_SEED={seed}");
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Any bytes at all.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// A key: no space, no newline, no carriage return at its end.
    pub fn key(&mut self) -> Vec<u8> {
        let len = if self.below(8) == 0 {
            250
        } else {
            1 + self.below(20)
        };
        (0..len).map(|_| 33 + self.below(94) as u8).collect()
    }

    /// A number of a length that varies, unlike that of a uniform one.
    pub fn number(&mut self) -> u64 {
        self.next() >> self.below(64)
    }

    /// Changes a few places of `bytes`: deletes, inserts, replaces, repeats.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const FRAGMENTS: [&[u8]; 24] = [
            b" ",
            b"  ",
            b"\t",
            b"\0",
            b"\r",
            b"\n",
            b"\r\n",
            b" noreply",
            b" -1",
            b" 0",
            b" 4294967296",
            b" 18446744073709551616",
            b" v",
            b" k",
            b" q",
            b" b",
            b" O123",
            b" MS",
            b" MX",
            b" T-1",
            b" C0",
            b"=",
            b"\x80",
            b"\xff",
        ];
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(4) {
                0 => {
                    let end = bytes.len().min(at + 1 + self.below(4));
                    bytes.drain(at..end);
                }
                1 => {
                    let fragment = self.pick(&FRAGMENTS);
                    bytes.splice(at..at, fragment.iter().copied());
                }
                2 if at < bytes.len() => bytes[at] = self.next() as u8,
                _ => {
                    let from = self.below(bytes.len() + 1);
                    let again: Vec<u8> = bytes[from..].iter().copied().take(40).collect();
                    bytes.splice(at..at, again);
                }
            }
        }
    }
}
