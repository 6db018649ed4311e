//! What servers of pools of any memcached understand.

/// Meta commands as they are now are known since this version, major and minor.
const META_SINCE: (u32, u32) = (1, 6);

/// What a server understands besides classic commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Capability {
    /// It has not said who it is.
    #[default]
    Unknown,
    /// Nothing.
    Classic,
    /// Meta commands.
    Meta,
}

impl Capability {
    /// What a server understands that says this of its version.
    pub fn of_version(words: &[u8]) -> Self {
        let mut numbers = words.split(|&byte| byte == b'.');
        let mut next = || {
            let word = core::str::from_utf8(numbers.next()?).ok()?;
            word.parse::<u32>().ok()
        };
        let version = next().zip(next());
        match version.is_some_and(|version| version >= META_SINCE) {
            true => Capability::Meta,
            false => Capability::Classic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_tell_who_knows_meta_commands() {
        for version in ["1.6.18", "1.6.45-evenkeel-0.1.0", "1.6", "1.10.0", "2.0.1"] {
            assert_eq!(Capability::of_version(version.as_bytes()), Capability::Meta);
        }
        for version in ["1.5.22", "1.4.15", "0.5.0", "mcrouter 0.41", "1", "", "x.y"] {
            assert_eq!(
                Capability::of_version(version.as_bytes()),
                Capability::Classic
            );
        }
    }
}
