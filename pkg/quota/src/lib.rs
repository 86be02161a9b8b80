//! What a ResourceQuota counts, and whether a write still fits.
//!
//! Two parties need the same answers: admission, which charges each write before it is stored ([`charge`]), and the
//! quota controller, which counts anew what is there ([`Tally`]). An [`Evaluator`] knows for one resource which names
//! of a quota's `hard` it counts, what one object uses, and which scopes an object is in.
//!
//! Pure: no I/O, no clock. Names, rules and texts are those of upstream's `pkg/quota/v1` and of its admission plugin.

mod amounts;
mod charge;
mod claims;
mod evaluator;
mod pods;
pub mod resources;
mod scope;
mod services;
mod tally;

pub use amounts::Amounts;
pub use charge::{Quota, Write, charge};
pub use evaluator::{Evaluator, count_name};
pub use scope::Term;
pub use tally::{Tally, evaluators_of};
