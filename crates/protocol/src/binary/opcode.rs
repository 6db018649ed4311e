//! The opcodes and their quiet forms.

/// What a request asks for, as it stands in the header. Not every number has a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u8);

#[expect(missing_docs, reason = "the names are those of the protocol")]
impl Opcode {
    pub const GET: Opcode = Opcode(0x00);
    pub const SET: Opcode = Opcode(0x01);
    pub const ADD: Opcode = Opcode(0x02);
    pub const REPLACE: Opcode = Opcode(0x03);
    pub const DELETE: Opcode = Opcode(0x04);
    pub const INCREMENT: Opcode = Opcode(0x05);
    pub const DECREMENT: Opcode = Opcode(0x06);
    pub const QUIT: Opcode = Opcode(0x07);
    pub const FLUSH: Opcode = Opcode(0x08);
    pub const GETQ: Opcode = Opcode(0x09);
    pub const NOOP: Opcode = Opcode(0x0a);
    pub const VERSION: Opcode = Opcode(0x0b);
    pub const GETK: Opcode = Opcode(0x0c);
    pub const GETKQ: Opcode = Opcode(0x0d);
    pub const APPEND: Opcode = Opcode(0x0e);
    pub const PREPEND: Opcode = Opcode(0x0f);
    pub const STAT: Opcode = Opcode(0x10);
    pub const SETQ: Opcode = Opcode(0x11);
    pub const ADDQ: Opcode = Opcode(0x12);
    pub const REPLACEQ: Opcode = Opcode(0x13);
    pub const DELETEQ: Opcode = Opcode(0x14);
    pub const INCREMENTQ: Opcode = Opcode(0x15);
    pub const DECREMENTQ: Opcode = Opcode(0x16);
    pub const QUITQ: Opcode = Opcode(0x17);
    pub const FLUSHQ: Opcode = Opcode(0x18);
    pub const APPENDQ: Opcode = Opcode(0x19);
    pub const PREPENDQ: Opcode = Opcode(0x1a);
    pub const VERBOSITY: Opcode = Opcode(0x1b);
    pub const TOUCH: Opcode = Opcode(0x1c);
    pub const GAT: Opcode = Opcode(0x1d);
    pub const GATQ: Opcode = Opcode(0x1e);
    pub const SASL_LIST_MECHS: Opcode = Opcode(0x20);
    pub const SASL_AUTH: Opcode = Opcode(0x21);
    pub const SASL_STEP: Opcode = Opcode(0x22);
    pub const GATK: Opcode = Opcode(0x23);
    pub const GATKQ: Opcode = Opcode(0x24);
    /// Amazon ElastiCache's auto discovery; memcached does not know it.
    pub const CONFIG_GET: Opcode = Opcode(0x60);
    /// The hello of Evenkeel's extension; memcached does not know it.
    pub const HELLO: Opcode = Opcode(0xe0);
}

/// Opcodes beside the quiet forms of the same commands.
const QUIET: [(Opcode, Opcode); 14] = [
    (Opcode::GET, Opcode::GETQ),
    (Opcode::GETK, Opcode::GETKQ),
    (Opcode::SET, Opcode::SETQ),
    (Opcode::ADD, Opcode::ADDQ),
    (Opcode::REPLACE, Opcode::REPLACEQ),
    (Opcode::DELETE, Opcode::DELETEQ),
    (Opcode::INCREMENT, Opcode::INCREMENTQ),
    (Opcode::DECREMENT, Opcode::DECREMENTQ),
    (Opcode::QUIT, Opcode::QUITQ),
    (Opcode::FLUSH, Opcode::FLUSHQ),
    (Opcode::APPEND, Opcode::APPENDQ),
    (Opcode::PREPEND, Opcode::PREPENDQ),
    (Opcode::GAT, Opcode::GATQ),
    (Opcode::GATK, Opcode::GATKQ),
];

impl Opcode {
    /// The command without regard to quiet, and whether this is its quiet form. A quiet reading
    /// command leaves out the answer to a miss, any other one the answer to success.
    #[inline]
    pub fn loud(self) -> (Opcode, bool) {
        match LOUD[usize::from(self.0)] {
            loud if loud == self => (self, false),
            loud => (loud, true),
        }
    }

    /// The quiet form of a command; the command itself where there is none.
    pub fn quiet(self) -> Opcode {
        QUIET
            .iter()
            .find(|(loud, _)| *loud == self)
            .map_or(self, |(_, quiet)| *quiet)
    }
}

/// For each opcode the command without regard to quiet.
const LOUD: [Opcode; 256] = {
    let mut table = [Opcode(0); 256];
    let mut i = 0;
    while i < table.len() {
        table[i] = Opcode(i as u8);
        i += 1;
    }
    let mut i = 0;
    while i < QUIET.len() {
        let (loud, quiet) = QUIET[i];
        table[quiet.0 as usize] = loud;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quiet_form_leads_back_to_its_command() {
        for number in 0..=u8::MAX {
            let opcode = Opcode(number);
            let (loud, is_quiet) = opcode.loud();
            assert_eq!(loud.loud(), (loud, false));
            if is_quiet {
                assert_eq!(loud.quiet(), opcode);
            } else {
                assert_eq!(loud, opcode);
            }
        }
        assert_eq!(Opcode::GATKQ.loud(), (Opcode::GATK, true));
        assert_eq!(Opcode::TOUCH.quiet(), Opcode::TOUCH);
    }
}
