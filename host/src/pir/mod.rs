//! Private information retrieval: a client gets one record of a server's database, and the server
//! does not learn which.

pub mod demo;
pub mod layout;
pub mod lwe;
pub mod params;
pub mod records;
