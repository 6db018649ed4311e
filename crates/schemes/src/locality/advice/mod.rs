//! Which architecture an application should have, by the [model](super::model) and by what was measured.
//!
//! The model is asked what each architecture would make of the application's requests: for the profile as it was measured, and for bootstrap
//! samples of it, whose spread is the interval of every figure. A change is advised where it gains enough and the intervals are apart.
//! Nothing is switched by itself. Advice that follows live traffic goes through [`Steady`], so that it does not flap.

mod advise;
mod choice;
mod estimate;
mod question;
mod steady;
#[cfg(test)]
mod tests;

pub use advise::{Advice, Number, Row, SWITCH_TIMES, Turning, advise};
pub use choice::{GAIN_MIN, MODEL_OFF_MAX};
pub use estimate::Estimate;
pub use question::{BYTES_MAX, Bad, Inputs, MS_MAX, Objective, Question, REQUESTS_MAX, Today};
pub use steady::{HOLDS, Steady};
