//! Detailed views of the analysis: connections one by one, streams, two captures, two reports.

pub mod compare;
pub mod connections;
mod exchanges;
pub mod picture;
pub mod stream_numbers;
pub mod stream_view;
mod tracker;
pub mod two_point;
