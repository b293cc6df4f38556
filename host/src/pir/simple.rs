//! `SimplePIR` (Henzinger, Hong, Corrigan-Gibbs, Meiklejohn, Vaikuntanathan: One Server for the Price of
//! Two, USENIX Security 2023, <https://eprint.iacr.org/2022/949>): one scalar fold.
//!
//! With D the database (D1 x D0 signed bytes), A the public matrix (D0 x n words), everything modulo
//! q = 2^32 and Delta = 2^24:
//!
//! 1. once: the server publishes [`Parameters`] and the [`Hint`] H = D A;
//! 2. key: the client draws a fresh secret s and error e, and computes A s + e and H s ([`Client::key`]);
//! 3. query: b = A s + e + Delta u, where u is 1 at the wanted column ([`ClientKey::query`]);
//! 4. answer: the server computes D b ([`Server::answer`]);
//! 5. recover: D b - H s = D e + Delta (D u), rounded to bytes ([`ClientState::recover`]).
//!
//! A record that spans c columns takes c queries in one [`Query`], each under its own secret; c is
//! public and the same for all records.
//!
//! ```
//! use std::path::Path;
//!
//! use gristmill::backend::{Backend, Mode};
//! use gristmill::pir::layout::LayoutPolicy;
//! use gristmill::he::lwe::params::LweParameters;
//! use gristmill::pir::product::Kernels;
//! use gristmill::pir::records::{ReadOptions, Records};
//! use gristmill::pir::simple::{Client, Database, Server};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = &b"zero\none\ntwo\n"[..];
//! let records = Records::from_bytes(Path::new("numbers.txt"), file, &ReadOptions::default())?;
//! let policy = LayoutPolicy::default();
//! let database = Database::build(&records, LweParameters::STANDARD, &policy)?;
//! let kernels = Kernels::from(&Backend::cpu(Mode::Fast));
//! let server = Server::new(&database, &kernels, &mut |_| ())?;
//!
//! let client = Client::new(server.parameters().clone(), server.hint().clone())?;
//! let (query, state) = client.key()?.query(2)?;
//! let answer = server.answer(&query)?;
//! assert_eq!(state.recover(&answer)?, b"two");
//! # Ok(())
//! # }
//! ```
//!
//! # A secret serves one query
//!
//! A is fixed, so two queries under one secret differ in public by where their columns are. Here
//! a [`ClientKey`] is made with a secret that never leaves it, is consumed by the query, and cannot
//! be copied:
//!
//! ```compile_fail,E0382
//! # use gristmill::pir::simple::{ClientKey, ClientError};
//! fn twice(key: ClientKey) -> Result<(), ClientError> {
//!     key.query(3)?;
//!     key.query(4)?; // use of moved value: `key`
//!     Ok(())
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use gristmill::pir::simple::ClientKey;
//! fn copy(key: ClientKey) -> (ClientKey, ClientKey) {
//!     (key.clone(), key) // no method named `clone`
//! }
//! ```
//!
//! and so is the state that an answer is read with:
//!
//! ```compile_fail,E0382
//! # use gristmill::pir::simple::{Answer, ClientState, RecoverError};
//! fn twice(state: ClientState, answer: &Answer) -> Result<(), RecoverError> {
//!     state.recover(answer)?;
//!     state.recover(answer)?; // use of moved value: `state`
//!     Ok(())
//! }
//! ```
//!
//! # Constant time
//!
//! Key, query and recovery take the same steps and touch the same memory whatever the secret, the
//! index and the record are; only the length of a record of variable length shows, once it is
//! recovered, on the client's own machine. Secrets are wiped after use.
//!
//! # What the server may see afterwards
//!
//! The scheme is secure as long as the server does not learn whether an answer was decoded well. A
//! client must not send anything that depends on it: no automatic retry after a [`RecoverError`].
//!
//! This matters the more as a client cannot check what the server gives it. The identity that every
//! message carries says which database and parameters it is about, to notice mistakes; it covers neither
//! the words of the hint nor the key table, and the server states the hash of the database itself. A
//! server can give a client a false hint, which makes answers decode or not depending on the client's
//! secret; then only that the client does not reveal a [`RecoverError`] protects it. A record that is
//! returned is what the server wants it to be: nothing here proves that it is the database's.

use std::fmt;

use chacha20::ChaCha20Rng;
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _, ConstantTimeLess as _};
use zeroize::{Zeroize as _, Zeroizing};

use super::layout::{ByteMatrix, Layout, LayoutError, LayoutPolicy, PADDING, RecordShape};
use super::product::{Engine, EngineError, Product};
use super::records::Records;
use crate::he::lwe::params::{DELTA, LOG2_MODULUS, LOG2_PLAINTEXT, LweParameters};
use crate::he::lwe::{PublicMatrix, TernarySecret, round};
use crate::he::sample::{DiscreteGaussian, RandomError, fill, secure_rng};
use crate::he::security::Secret;
use crate::wire::{
    Identity, Kind, Reader, WireError, bytes_of, frame, unframe, unframe_for, words_of,
};

/// What a server publishes about its database: everything but the hint that a client needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    lwe: LweParameters,
    layout: Layout,
    /// SHA-256 of the matrix.
    database: [u8; 32],
    identity: Identity,
}

/// Bytes of the payload of [`Parameters`].
const PARAMETERS_BYTES: u64 = 64;
impl Parameters {
    fn new(lwe: LweParameters, layout: Layout, database: [u8; 32]) -> Self {
        let mut parameters = Self {
            lwe,
            layout,
            database,
            identity: Identity([0; 32]),
        };
        let mut hash = Sha256::new();
        hash.update(b"gristmill simple parameters 1");
        hash.update(parameters.payload());
        parameters.identity = Identity(hash.finalize().into());
        parameters
    }

    fn payload(&self) -> Vec<u8> {
        let (lwe, layout) = (&self.lwe, &self.layout);
        let mut payload = Vec::with_capacity(PARAMETERS_BYTES as usize);
        payload.extend((lwe.dimension() as u32).to_le_bytes());
        payload.extend(lwe.sigma_hundredths().to_le_bytes());
        payload.push(match lwe.secret() {
            Secret::Ternary => 0,
            Secret::Uniform => 1,
        });
        payload.extend([
            LOG2_MODULUS as u8,
            LOG2_PLAINTEXT as u8,
            layout.prefix_bytes(),
        ]);
        payload.extend(layout.records().to_le_bytes());
        payload.extend(layout.max_record_bytes().to_le_bytes());
        payload.extend(layout.records_per_column().to_le_bytes());
        payload.extend(layout.columns_per_record().to_le_bytes());
        payload.extend(self.database);
        payload
    }

    /// The LWE parameters.
    pub fn lwe(&self) -> &LweParameters {
        &self.lwe
    }

    /// The layout of the records.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The hash of all of this and of the database: what every other message must carry. A client that
    /// does not have the database takes the server's word for its hash; and neither the words of the
    /// hint nor the rows of the key table go into it.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The public matrix A. Its seed is a hash of the database, so that neither side can choose it beyond
    /// grinding a hash, and a server that starts again has the same hint. So A is the same for every
    /// client and every deployment of the same matrix: what an attacker computes from A alone counts
    /// against all of their queries.
    pub fn public_matrix(&self) -> PublicMatrix {
        let mut hash = Sha256::new();
        hash.update(b"gristmill simple public matrix 1");
        hash.update(self.database);
        PublicMatrix::new(hash.finalize().into())
    }

    /// log2 of a bound on the probability that a retrieved record is wrong.
    pub fn log2_failure(&self) -> f64 {
        self.layout.log2_failure(&self.lwe)
    }

    /// The parameters as a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame(Kind::Parameters, &self.identity, &[&self.payload()])
    }

    /// The parameters of a message, checked like any others: a server cannot talk a client into a set
    /// below 128 bits or one that fails too often, nor into messages or work without end
    /// ([`Layout::check_client`]).
    ///
    /// # Errors
    ///
    /// [`WireError`] where the bytes are no parameters or ones to refuse.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let kind = Kind::Parameters;
        let value = |what: String| WireError::Value { kind, what };
        let (identity, payload) = unframe(kind, bytes)?;
        if payload.len() as u64 != PARAMETERS_BYTES {
            return Err(WireError::Length {
                kind,
                expected: PARAMETERS_BYTES,
                found: payload.len() as u64,
            });
        }
        let mut fields = Reader(payload);
        let (dimension, sigma_hundredths) = (fields.u32(), fields.u32());
        let secret = match fields.u8() {
            0 => Secret::Ternary,
            1 => Secret::Uniform,
            other => return Err(value(format!("distribution {other} of the secret"))),
        };
        let (log2_modulus, log2_plaintext) = (fields.u8(), fields.u8());
        if (u32::from(log2_modulus), u32::from(log2_plaintext)) != (LOG2_MODULUS, LOG2_PLAINTEXT) {
            return Err(value(format!(
                "q = 2^{log2_modulus} and p = 2^{log2_plaintext} instead of 2^32 and 2^8"
            )));
        }
        let lwe = LweParameters::new(dimension, sigma_hundredths, secret)
            .map_err(|e| value(e.to_string()))?;
        let prefix_bytes = fields.u8();
        let records = fields.u64();
        let (max_record_bytes, records_per_column, columns_per_record) =
            (fields.u32(), fields.u32(), fields.u32());
        let layout = Layout::from_parts(
            records,
            max_record_bytes,
            prefix_bytes,
            records_per_column,
            columns_per_record,
            &lwe,
        )
        .map_err(|e| value(e.to_string()))?;
        layout
            .check_client(&lwe)
            .map_err(|e| value(e.to_string()))?;
        let parameters = Self::new(lwe, layout, fields.take().unwrap_or_default());
        if parameters.identity != identity {
            return Err(value("their identity is not their hash".to_owned()));
        }
        Ok(parameters)
    }
}

/// The hint H = D A: D1 x n words, downloaded once, column by column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    identity: Identity,
    words: Vec<u32>,
}

impl Hint {
    /// The words: column k of n at `k * D1`, D1 words each.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The hint as a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame(Kind::Hint, &self.identity, &[&bytes_of(&self.words)])
    }

    /// The hint of a message.
    ///
    /// # Errors
    ///
    /// [`WireError`] where the bytes are no hint of this database.
    pub fn from_bytes(bytes: &[u8], parameters: &Parameters) -> Result<Self, WireError> {
        let length = parameters.layout.hint_bytes(&parameters.lwe);
        let payload = unframe_for(Kind::Hint, bytes, &parameters.identity, length)?;
        Ok(Self {
            identity: parameters.identity,
            words: words_of(payload),
        })
    }
}

/// Bytes of the number that pairs an answer with its query.
const ID_BYTES: u64 = 16;

/// What a client sends for one record: c vectors of D0 words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    identity: Identity,
    id: [u8; ID_BYTES as usize],
    words: Vec<u32>,
}

impl Query {
    /// The words, one vector of D0 after the other.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The query as a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame(
            Kind::Query,
            &self.identity,
            &[&self.id, &bytes_of(&self.words)],
        )
    }

    /// The query of a message.
    ///
    /// # Errors
    ///
    /// [`WireError`] where the bytes are no query to this database.
    pub fn from_bytes(bytes: &[u8], parameters: &Parameters) -> Result<Self, WireError> {
        let (id, words) = with_id(Kind::Query, bytes, parameters, parameters.layout.up_bytes())?;
        Ok(Self {
            identity: parameters.identity,
            id,
            words,
        })
    }
}

/// What the server sends back: c vectors of D1 words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    identity: Identity,
    id: [u8; ID_BYTES as usize],
    words: Vec<u32>,
}

impl Answer {
    /// The words, one vector of D1 after the other.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The answer as a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame(
            Kind::Answer,
            &self.identity,
            &[&self.id, &bytes_of(&self.words)],
        )
    }

    /// The answer of a message.
    ///
    /// # Errors
    ///
    /// [`WireError`] where the bytes are no answer of this database.
    pub fn from_bytes(bytes: &[u8], parameters: &Parameters) -> Result<Self, WireError> {
        let (id, words) = with_id(
            Kind::Answer,
            bytes,
            parameters,
            parameters.layout.down_bytes(),
        )?;
        Ok(Self {
            identity: parameters.identity,
            id,
            words,
        })
    }
}

fn with_id(
    kind: Kind,
    bytes: &[u8],
    parameters: &Parameters,
    length: u64,
) -> Result<([u8; ID_BYTES as usize], Vec<u32>), WireError> {
    let payload = unframe_for(kind, bytes, &parameters.identity, ID_BYTES + length)?;
    let mut fields = Reader(payload);
    let id = fields.take().unwrap_or_default();
    Ok((id, words_of(fields.0)))
}

/// Records laid out, with the parameters that they will be served under.
#[derive(Clone, Debug)]
pub struct Database {
    parameters: Parameters,
    matrix: ByteMatrix,
}

impl Database {
    /// Lays records out with the least traffic, within the limits of the policy.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] where every layout passes a limit.
    pub fn build(
        records: &Records,
        lwe: LweParameters,
        policy: &LayoutPolicy,
    ) -> Result<Self, LayoutError> {
        let layout = Layout::choose(&RecordShape::of(records), &lwe, policy)?;
        Self::with_layout(records, lwe, layout)
    }

    /// Lays records out as told.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] where the layout is not one of these records, fails too often under these
    /// parameters, or is one that clients refuse.
    pub fn with_layout(
        records: &Records,
        lwe: LweParameters,
        layout: Layout,
    ) -> Result<Self, LayoutError> {
        layout.check(&lwe)?;
        layout.check_client(&lwe)?;
        let matrix = ByteMatrix::build(records, &layout)?;
        let mut hash = Sha256::new();
        hash.update(b"gristmill simple database 1");
        hash.update((matrix.rows() as u64).to_le_bytes());
        hash.update((matrix.columns() as u64).to_le_bytes());
        hash.update(bytemuck::cast_slice::<i8, u8>(matrix.entries()));
        Ok(Self {
            parameters: Parameters::new(lwe, layout, hash.finalize().into()),
            matrix,
        })
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The matrix D.
    pub fn matrix(&self) -> &ByteMatrix {
        &self.matrix
    }
}

/// Why a server cannot serve or answer.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The machine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The query is for another database.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// The server: a database in the memory of a machine, and its hint.
pub struct Server {
    parameters: Parameters,
    product: Box<dyn Product>,
    hint: Hint,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}

/// Columns of the hint computed at a time, and the memory that their part of A may take.
const HINT_COLUMNS: usize = 128;
const HINT_WORDS: usize = 16 << 20;

impl Server {
    /// Loads a database and computes its hint on `engine`, column by column of n; `progress` is told
    /// after each part how many are done.
    ///
    /// # Errors
    ///
    /// [`EngineError`] where the machine failed.
    pub fn new(
        database: &Database,
        engine: &dyn Engine,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Self, EngineError> {
        let parameters = database.parameters.clone();
        let product = engine.load(&database.matrix)?;
        let (n, columns) = (parameters.lwe.dimension(), database.matrix.columns());
        let public = parameters.public_matrix();
        let at_a_time = (HINT_WORDS / columns).clamp(8, HINT_COLUMNS);
        let mut words = Vec::with_capacity(n * database.matrix.rows());
        for first in (0..n).step_by(at_a_time) {
            let part = at_a_time.min(n - first);
            let mut a = vec![0; part * columns];
            a.par_chunks_mut(columns)
                .enumerate()
                .for_each(|(k, column)| public.column((first + k) as u64, 0, column));
            words.extend(product.multiply(&a)?);
            progress(first + part);
        }
        if words.len() != n * database.matrix.rows() {
            return Err(EngineError::new(
                "the engine returned a product of the wrong size",
            ));
        }
        let hint = Hint {
            identity: parameters.identity,
            words,
        };
        Ok(Self {
            parameters,
            product,
            hint,
        })
    }

    /// The parameters to publish.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The hint to publish.
    pub fn hint(&self) -> &Hint {
        &self.hint
    }

    /// Answers a query: c products of the whole database with a vector.
    ///
    /// # Errors
    ///
    /// [`ServerError`] where the query is for another database or the machine failed.
    pub fn answer(&self, query: &Query) -> Result<Answer, ServerError> {
        if query.identity != self.parameters.identity {
            return Err(WireError::Identity { kind: Kind::Query }.into());
        }
        let words = self.product.multiply(&query.words)?;
        Ok(Answer {
            identity: query.identity,
            id: query.id,
            words,
        })
    }
}

/// Why a client cannot ask.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no such record.
    #[error("index {index} is past the end: the database has {records} records, 0 to {}", records - 1)]
    Index {
        /// The index asked for.
        index: u64,
        /// Number of records.
        records: u64,
    },
    /// The hint is that of another database.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The operating system gave no randomness.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// A client that has fetched parameters and hint.
#[derive(Debug)]
pub struct Client {
    parameters: Parameters,
    hint: Hint,
    gaussian: DiscreteGaussian,
}

impl Client {
    /// A client of the database that both are of.
    ///
    /// # Errors
    ///
    /// [`WireError`] where the hint is of another database.
    pub fn new(parameters: Parameters, hint: Hint) -> Result<Self, WireError> {
        if parameters.identity != hint.identity {
            return Err(WireError::Identity { kind: Kind::Hint });
        }
        let gaussian = DiscreteGaussian::new(parameters.lwe.sigma_hundredths());
        Ok(Self {
            parameters,
            hint,
            gaussian,
        })
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Whether there is a record `index`.
    ///
    /// # Errors
    ///
    /// [`ClientError::Index`] where there is none.
    pub fn check_index(&self, index: u64) -> Result<(), ClientError> {
        check_index(&self.parameters.layout, index)
    }

    /// Draws the secrets of one query from the operating system's randomness, and does all of the
    /// client's work that needs no index: it can be done ahead of time.
    ///
    /// # Errors
    ///
    /// [`RandomError`] where there is no randomness.
    pub fn key(&self) -> Result<ClientKey, RandomError> {
        Ok(self.key_from(&mut secure_rng()?))
    }

    fn key_from(&self, rng: &mut ChaCha20Rng) -> ClientKey {
        let Parameters { lwe, layout, .. } = &self.parameters;
        let (rows, columns) = (layout.rows() as usize, layout.columns() as usize);
        let queries = layout.columns_per_record() as usize;
        let secrets: Vec<_> = (0..queries)
            .map(|_| TernarySecret::sample(lwe, rng))
            .collect();

        // A s + e, by pieces of rows of A, each expanded once for all secrets.
        let public = self.parameters.public_matrix();
        let mut masks = Zeroizing::new(vec![0; queries * columns]);
        for mask in masks.iter_mut() {
            *mask = self.gaussian.sample(rng) as u32;
        }
        let mut pieces: Vec<Vec<&mut [u32]>> =
            (0..columns.div_ceil(PIECE)).map(|_| Vec::new()).collect();
        for mask in masks.chunks_mut(columns) {
            for (piece, words) in pieces.iter_mut().zip(mask.chunks_mut(PIECE)) {
                piece.push(words);
            }
        }
        pieces.par_iter_mut().enumerate().for_each(|(at, piece)| {
            let mut words = vec![0; piece.first().map_or(0, |words| words.len())];
            for k in 0..lwe.dimension() {
                public.column(k as u64, at * PIECE, &mut words);
                for (secret, sums) in secrets.iter().zip(piece.iter_mut()) {
                    secret.add_multiple(k, &words, sums);
                }
            }
        });

        let mut hint = Zeroizing::new(vec![0; queries * rows]);
        for (k, column) in self.hint.words.chunks(rows).enumerate() {
            for (secret, sums) in secrets.iter().zip(hint.chunks_mut(rows)) {
                secret.add_multiple(k, column, sums);
            }
        }
        let mut id = [0; ID_BYTES as usize];
        fill(rng, &mut id);
        ClientKey {
            identity: self.parameters.identity,
            layout: *layout,
            id,
            masks,
            hint,
        }
    }
}

/// Rows of A that one thread expands at a time.
const PIECE: usize = 1024;

fn check_index(layout: &Layout, index: u64) -> Result<(), ClientError> {
    if index < layout.records() {
        Ok(())
    } else {
        Err(ClientError::Index {
            index,
            records: layout.records(),
        })
    }
}

/// The secrets of one query, in the form in which they are used: A s + e and H s for each of its c
/// vectors. The query consumes it; it is wiped when dropped.
pub struct ClientKey {
    identity: Identity,
    layout: Layout,
    id: [u8; ID_BYTES as usize],
    masks: Zeroizing<Vec<u32>>,
    hint: Zeroizing<Vec<u32>>,
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

impl ClientKey {
    /// The query for record `index`, and what its answer will be read with.
    ///
    /// # Errors
    ///
    /// [`ClientError::Index`] where there is no such record; the key is spent all the same.
    pub fn query(mut self, index: u64) -> Result<(Query, ClientState), ClientError> {
        let layout = self.layout;
        check_index(&layout, index)?;
        let per_column = u64::from(layout.records_per_column());
        let per_record = u64::from(layout.columns_per_record());
        let columns = layout.columns() as usize;
        // Which of the r slots of its column the record is. The column is found by comparison, since
        // a division would take a time that depends on the index.
        let mut slot = Zeroizing::new(0_u64);
        for (part, mask) in (0..per_record).zip(self.masks.chunks_mut(columns)) {
            for (column, word) in (0_u64..).zip(mask) {
                let selected = if per_record == 1 {
                    // Records column * r .. column * r + r; below zero wraps to the far end.
                    let within = index.wrapping_sub(column * per_column);
                    let selected = within.ct_lt(&per_column);
                    slot.conditional_assign(&within, selected);
                    selected
                } else {
                    column.ct_eq(&(index * per_record + part))
                };
                *word = word.wrapping_add(u32::conditional_select(&0, &DELTA, selected));
            }
        }
        // The masks become the query, which is public; nothing of them is left behind.
        let words = std::mem::take(&mut *self.masks);
        let query = Query {
            identity: self.identity,
            id: self.id,
            words,
        };
        let hint = std::mem::take(&mut *self.hint);
        let state = ClientState {
            identity: self.identity,
            layout,
            id: self.id,
            slot,
            hint: Zeroizing::new(hint),
        };
        Ok((query, state))
    }
}

/// Why an answer gives no record.
///
/// Do not let the server see this: no retry that it could tell from a first query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The answer is of another database.
    #[error(
        "the answer is for another database or other parameters: fetch parameters and hint again"
    )]
    OtherDatabase,
    /// The answer is to another query.
    #[error("the answer is to another query")]
    OtherQuery,
    /// The answer has another size than the parameters say.
    #[error("the answer has {found} words and {expected} are expected")]
    Length {
        /// Words expected.
        expected: usize,
        /// Words found.
        found: usize,
    },
    /// What comes out is no record: the server did not answer with this database.
    #[error(
        "the answer does not decode to a record: the server computed with something else than its database"
    )]
    Corrupt,
}

/// What reads one answer: H s and the place of the record in its column. Recovering consumes it; it
/// is wiped when dropped.
pub struct ClientState {
    identity: Identity,
    layout: Layout,
    id: [u8; ID_BYTES as usize],
    slot: Zeroizing<u64>,
    hint: Zeroizing<Vec<u32>>,
}

impl fmt::Debug for ClientState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientState").finish_non_exhaustive()
    }
}

impl ClientState {
    /// The record.
    ///
    /// # Errors
    ///
    /// [`RecoverError`] where the answer is not one to this query or decodes to no record.
    pub fn recover(self, answer: &Answer) -> Result<Vec<u8>, RecoverError> {
        if answer.identity != self.identity {
            return Err(RecoverError::OtherDatabase);
        }
        if answer.id != self.id {
            return Err(RecoverError::OtherQuery);
        }
        let (expected, found) = (self.hint.len(), answer.words.len());
        if expected != found {
            return Err(RecoverError::Length { expected, found });
        }
        let layout = &self.layout;
        let height = layout.rows() as usize / layout.records_per_column() as usize;
        // All slots are decoded and looked at; the wanted one is kept.
        let mut kept = Zeroizing::new(vec![0_u8; height * layout.columns_per_record() as usize]);
        let columns = answer
            .words
            .chunks(layout.rows() as usize)
            .zip(self.hint.chunks(layout.rows() as usize));
        for (kept, (words, hint)) in kept.chunks_mut(height).zip(columns) {
            for (slot, (words, hint)) in
                (0_u64..).zip(words.chunks(height).zip(hint.chunks(height)))
            {
                let wanted = slot.ct_eq(&self.slot);
                for (kept, (word, hint)) in kept.iter_mut().zip(words.iter().zip(hint)) {
                    // Stored as b - 128: add 128 modulo 256.
                    let byte = round(word.wrapping_sub(*hint)) ^ 0x80;
                    kept.conditional_assign(&byte, wanted);
                }
            }
        }
        let mut kept = std::mem::take(&mut *kept);
        // A slot may end before the last row of its last column.
        let slot_bytes = layout.slot_bytes() as usize;
        let prefix = usize::from(layout.prefix_bytes());
        let mut length = layout.max_record_bytes() as usize;
        if prefix > 0 {
            length = kept
                .iter()
                .take(prefix)
                .rev()
                .fold(0, |length, &byte| length << 8 | usize::from(byte));
        }
        // Padding is looked at over the whole slot, wherever the record ends.
        let end = (prefix + length) as u64;
        let mut bad = !end.ct_lt(&(slot_bytes as u64 + 1));
        for (at, byte) in (0_u64..).zip(&kept) {
            bad |= !at.ct_lt(&end) & !byte.ct_eq(&PADDING);
        }
        if bool::from(bad) {
            kept.zeroize();
            return Err(RecoverError::Corrupt);
        }
        kept.truncate(prefix + length);
        kept.drain(..prefix);
        Ok(kept)
    }
}

#[cfg(test)]
mod tests;
