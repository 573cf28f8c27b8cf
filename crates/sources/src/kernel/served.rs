//! The requests that a worker sends to the eBPF programs of its keeper.

use std::io;
use std::os::fd::OwnedFd;

use super::Programs;
use super::request::Request;

/// Decodes a request.
///
/// # Errors
/// Returns an error if the request is malformed.
pub(crate) fn decode(bytes: &[u8]) -> io::Result<Request> {
    postcard::from_bytes(bytes).map_err(io::Error::other)
}

/// Carries out a request in the keeper, and encodes the answer.
///
/// # Errors
/// Returns an error if the answer cannot be encoded.
pub(crate) fn serve(
    programs: &mut Programs,
    request: Request,
) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let (reply, descriptors) = match programs.serve(request) {
        Ok((reply, descriptors)) => (Ok(reply), descriptors),
        Err(error) => (Err(error), Vec::new()),
    };
    let reply = postcard::to_stdvec(&reply).map_err(io::Error::other)?;
    Ok((reply, descriptors))
}
