//! The port of a service.

/// The port on which a service's server listens, and the service's name, which its files bear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServicePort<'a> {
    pub(crate) name: &'a str,
    pub(crate) port: u16,
}
