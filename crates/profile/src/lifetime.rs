//! How long an item was to live, in twelve bits.

/// How long the item of a command was to live, rounded down to one part in 128.
///
/// Twelve bits: 0 is forever, or unknown; else the exponent and seven bits of the mantissa, and one is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime(u16);

const MANTISSA_BITS: u32 = 7;

impl Lifetime {
    /// It has no end, or nobody knows one.
    pub const FOREVER: Lifetime = Lifetime(0);

    /// Bits that it takes.
    pub(crate) const BITS: u32 = 12;

    /// Of this many seconds; more than 2³¹ − 1 count as this many, none as one.
    pub fn of_seconds(seconds: u32) -> Self {
        let seconds = seconds.clamp(1, i32::MAX as u32);
        let exponent = seconds.ilog2();
        // The highest bit is understood.
        let mantissa = (u64::from(seconds) << MANTISSA_BITS >> exponent) as u32 & 0x7f;
        Lifetime((exponent << MANTISSA_BITS | mantissa) as u16 + 1)
    }

    /// Seconds; `None` if it has no end.
    pub fn seconds(self) -> Option<u32> {
        let code = u32::from(self.0.checked_sub(1)?);
        let (exponent, mantissa) = (code >> MANTISSA_BITS, code & 0x7f);
        let whole = u64::from(1 << MANTISSA_BITS | mantissa) << exponent;
        Some((whole >> MANTISSA_BITS) as u32)
    }

    pub(crate) fn to_bits(self) -> u16 {
        self.0
    }

    pub(crate) fn of_bits(bits: u16) -> Self {
        // The exponent of 2³¹ − 1 is 30.
        Lifetime(bits.min(31 << MANTISSA_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_kept_within_one_part_in_128() {
        let all = (1..5000).chain((0..31).flat_map(|bit| [1u32 << bit, (1u32 << bit) + 1]));
        for seconds in all.chain([i32::MAX as u32]) {
            let kept = Lifetime::of_seconds(seconds);
            let shown = kept.seconds().expect("it has an end");
            assert!(shown <= seconds, "{seconds}: {shown}");
            assert!(shown >= seconds - seconds / 128, "{seconds}: {shown}");
            assert!(kept.to_bits() < 1 << Lifetime::BITS, "{seconds}");
            assert_eq!(Lifetime::of_bits(kept.to_bits()), kept);
        }
        assert_eq!(Lifetime::of_seconds(0).seconds(), Some(1));
        assert_eq!(
            Lifetime::of_seconds(u32::MAX),
            Lifetime::of_seconds(i32::MAX as u32)
        );
        assert_eq!(Lifetime::FOREVER.seconds(), None);
    }

    #[test]
    fn any_bits_can_be_shown() {
        for bits in 0..=u16::MAX {
            let _ = Lifetime::of_bits(bits).seconds();
        }
    }
}
