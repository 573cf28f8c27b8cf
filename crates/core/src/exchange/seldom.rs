//! Parts of an exchange that most exchanges do not have.

use core::fmt;
use core::ops::{Deref, DerefMut};

/// A value with a constant that stands for "nothing".
pub trait Vacant: Clone + Default + 'static {
    /// The value of exchanges that have nothing of this kind.
    const NOTHING: &'static Self;
}

/// A value that is nothing for most exchanges, and takes memory of its own only where it is not. An
/// exchange is moved, kept until it is counted, and read by many rules: what most exchanges lack
/// must not make it larger.
#[derive(Clone, Default)]
pub struct Seldom<T>(Option<Box<T>>);

impl<T: Vacant> Seldom<T> {
    /// Returns true if the value was never changed.
    pub fn is_vacant(&self) -> bool {
        self.0.is_none()
    }
}

impl<T: Vacant> Deref for Seldom<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::NOTHING)
    }
}

/// To ask for a value that may change takes memory for it, even if it then does not change.
impl<T: Vacant> DerefMut for Seldom<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Vacant> From<T> for Seldom<T> {
    fn from(value: T) -> Self {
        Self(Some(Box::new(value)))
    }
}

impl<T: Vacant + fmt::Debug> fmt::Debug for Seldom<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
