//! Requests under way: put to a server, parked, asked again, failed, and their answers shown in turn.
//!
//! Each file calls only what is below it:
//!
//! ```text
//!   stages, limited              a pool changes its servers; a part of a multi-get is enough
//!   second_round                 at home, what is not at a copy
//!   retry, flush, lines          after a pause; in rounds; a line for each server
//!   by_stage                     at former servers or the pool's own
//!   copies                       copies are filled and refreshed
//!   inner                        steps of one that are commands of another pool
//!   operation                    in several steps
//!   crossing                     between racks
//!   crossed                      what applications are told of that
//!   deletions                    copies are deleted behind a write
//!   release                      what an application is shown, in the order asked
//!   again                        the same once more, or at another place
//!   park                         not now
//!   fail, put, catch_up          not at all; into a queue
//!   say, log, profile, pace, era, apart
//!   reach                        which servers of a ring are
//! ```

pub(crate) mod again;
pub(crate) mod apart;
pub(crate) mod by_stage;
pub(crate) mod catch_up;
pub(crate) mod copies;
pub(crate) mod crossed;
pub(crate) mod crossing;
pub(crate) mod deletions;
pub(crate) mod era;
pub(crate) mod fail;
pub(crate) mod flush;
pub(crate) mod inner;
pub(crate) mod limited;
pub(crate) mod lines;
pub(crate) mod local_copies;
pub(crate) mod log;
pub(crate) mod operation;
pub(crate) mod pace;
pub(crate) mod park;
pub(crate) mod profile;
pub(crate) mod put;
pub(crate) mod reach;
pub(crate) mod release;
pub(crate) mod retry;
pub(crate) mod room;
pub(crate) mod say;
pub(crate) mod second_round;
pub(crate) mod stages;
