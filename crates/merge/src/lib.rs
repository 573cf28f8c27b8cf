//! `#[derive(Merge)]` for the accumulators of `lagtrace-core`, each of which exists once per shard
//! and is merged at the end. What is generated names every field, so that none is forgotten.
//!
//! A field is merged by its own type's `Merge`, unless an attribute says otherwise:
//!
//! - `#[merge(max)]`: the greater one stays; with `None` below all others;
//! - `#[merge(least)]`: the lesser one of two `Option`s stays, if there are two;
//! - `#[merge(any)]`: a `bool` is true if one of them was;
//! - `#[merge(extend)]`: a collection takes the other's elements;
//! - `#[merge(entries)]`: entries of a map with the same key are merged. Nothing bounds the map, so
//!   the keys must be few by nature;
//! - `#[merge(inner)]`: what is in two `Option`s is merged, if there are two;
//! - `#[merge(span)]`: the earlier beginning and the later end stay, of two `Option`s;
//! - `#[merge(with = FUNCTION)]`: the function gets `&mut` of the own field, and the other;
//! - `#[merge(skip = "REASON")]`: the own one stays.
//!
//! `#[merge(then = FUNCTION)]` on the struct calls a function on it after all fields: one that
//! bounds a list, for example.

#![forbid(unsafe_code)]

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{Attribute, Data, DeriveInput, Error, Field, LitStr, Path, Result};

/// Implements `crate::stats::Merge` for a struct, field by field.
#[proc_macro_derive(Merge, attributes(merge))]
pub fn derive_merge(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

/// Ways to merge a field, each a function of `lagtrace-core`'s module `stats::merge`.
const WAYS: [&str; 7] = ["max", "least", "any", "extend", "entries", "inner", "span"];

/// Implements the trait.
fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "only structs are merged"));
    };
    let (mut patterns, mut merges) = (Vec::new(), Vec::new());
    for (field, member) in data.fields.iter().zip(data.fields.members()) {
        let other = format_ident!("other_{}", member);
        match way(field)? {
            Some(way) => {
                patterns.push(quote!(#member: #other));
                merges.push(quote!(#way(&mut self.#member, #other);));
            }
            None => patterns.push(quote!(#member: _)),
        }
    }
    let then = then(&input.attrs)?;
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #generics crate::stats::Merge for #name #arguments #bounds {
            fn merge(&mut self, other: Self) {
                let Self { #(#patterns),* } = other;
                #(#merges)*
                #then
            }
        }
    })
}

/// Returns the function that merges a field; `None` if the other's value is not needed.
fn way(field: &Field) -> Result<Option<TokenStream>> {
    let mut way = Some(quote!(crate::stats::Merge::merge));
    for attribute in of_merge(&field.attrs) {
        attribute.parse_nested_meta(|meta| {
            way = if meta.path.is_ident("skip") {
                meta.value()?.parse::<LitStr>()?;
                None
            } else if meta.path.is_ident("with") {
                let function: Path = meta.value()?.parse()?;
                Some(quote!(#function))
            } else {
                let name = meta.path.get_ident();
                let known = name.filter(|name| WAYS.iter().any(|known| name == known));
                let known: &Ident = known.ok_or_else(|| meta.error("no way to merge"))?;
                Some(quote!(crate::stats::merge::#known))
            };
            Ok(())
        })?;
    }
    Ok(way)
}

/// Returns the call after all fields are merged, if there is one.
fn then(attributes: &[Attribute]) -> Result<Option<TokenStream>> {
    let mut then = None;
    for attribute in of_merge(attributes) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("then") {
                return Err(meta.error("a struct has only `then`"));
            }
            let function: Path = meta.value()?.parse()?;
            then = Some(quote!(#function(self);));
            Ok(())
        })?;
    }
    Ok(then)
}

fn of_merge(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("merge"))
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn expanded(input: &DeriveInput) -> String {
        expand(input).map_or_else(|error| error.to_string(), |code| code.to_string())
    }

    #[test]
    fn each_field_is_named_and_merged_in_its_way() {
        let code = expanded(&parse_quote! {
            #[merge(then = Self::settle)]
            struct Both<T: Ord>(u64, #[merge(max)] T, #[merge(skip = "a cache")] T);
        });
        let expected = quote! {
            #[automatically_derived]
            impl<T: Ord> crate::stats::Merge for Both<T> {
                fn merge(&mut self, other: Self) {
                    let Self { 0: other_0, 1: other_1, 2: _ } = other;
                    crate::stats::Merge::merge(&mut self.0, other_0);
                    crate::stats::merge::max(&mut self.1, other_1);
                    Self::settle(self);
                }
            }
        };
        // As a literal, a number has a suffix in one of them.
        assert_eq!(code.replace("u32", ""), expected.to_string());
    }

    #[test]
    fn what_cannot_be_merged_is_refused() {
        let refused: [(DeriveInput, &str); 4] = [
            (
                parse_quote!(
                    enum Either {
                        One,
                    }
                ),
                "only structs are merged",
            ),
            (
                parse_quote!(
                    struct Sum(#[merge(maximum)] u64);
                ),
                "no way to merge",
            ),
            (
                parse_quote!(
                    struct Sum(#[merge(skip)] u64);
                ),
                "expected `=`",
            ),
            (
                parse_quote!(
                    #[merge(settle)]
                    struct Sum;
                ),
                "a struct has only `then`",
            ),
        ];
        for (input, expected) in &refused {
            assert_eq!(expanded(input), *expected);
        }
    }
}
