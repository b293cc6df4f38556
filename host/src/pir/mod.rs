//! Private information retrieval: a client gets one record of a server's database, and the server
//! does not learn which.
//!
//! | module | |
//! | --- | --- |
//! | [`records`] | records from a file |
//! | [`layout`] | records in the database matrix |
//! | [`product`] | the database product, on some machine |
//! | [`simple`] | the protocol `SimplePIR` |
//! | [`keys`] | lookup by key, at the client |
//! | [`demo`] | one lookup, from file to record |

pub mod demo;
pub mod keys;
pub mod layout;

pub mod product;
pub mod records;
pub mod simple;
