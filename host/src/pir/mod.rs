//! Private information retrieval: a client gets one record of a server's database, and the server
//! does not learn which.
//!
//! | module | |
//! | --- | --- |
//! | [`records`] | records from a file |
//! | [`layout`] | records in the database matrix |
//! | [`params`] | parameters, their security and their failure bound |
//! | [`lwe`] | learning with errors: public matrix, secrets, error |
//! | [`product`] | the database product, on some machine |
//! | [`simple`] | the protocol `SimplePIR` |
//! | [`keys`] | lookup by key, at the client |
//! | [`wire`] | the frame of messages |
//! | [`demo`] | one lookup, from file to record |

pub mod demo;
pub mod keys;
pub mod layout;
pub mod lwe;
pub mod params;
pub mod product;
pub mod records;
pub mod simple;
pub mod wire;
