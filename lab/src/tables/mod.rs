//! Tables: numbers with their spread, in the form that readers expect, as text and as Markdown.

mod escape;
pub mod format;
pub mod stats;
mod table;

pub use escape::markdown as escaped;
pub use table::{NOTHING, Table};
