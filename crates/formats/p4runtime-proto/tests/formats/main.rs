//! Messages as text and as JSON.

mod json;
mod text;
