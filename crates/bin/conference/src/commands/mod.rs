//! The commands, one in each file.

pub mod backup;
pub mod doctor;
pub mod drain;
mod follow;
pub mod join;
pub mod load;
mod open_files;
pub mod record;
pub mod restore;
pub mod serve;
pub mod why;

use conference_client::Api;

use crate::args::Administrator;
use crate::failure::Failure;

/// Makes a client that sends requests as an administrator.
fn api(of: &Administrator) -> Result<Api, Failure> {
    match &of.ca {
        Some(ca) => Ok(Api::trusting(&of.url, &of.token, ca)?),
        None => Ok(Api::new(&of.url, &of.token)),
    }
}
