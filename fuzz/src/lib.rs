//! Fuzz targets: everything that reads what another party sent. `cargo xtask fuzz` runs them.
//!
//! # A new target
//!
//! One more [`Target`] in [`TARGETS`]: what a message is, payloads to start from, and how it is decoded.
//! Nothing else has to be told; `cargo xtask fuzz` finds it.
//!
//! # What is tried
//!
//! The first byte of an input says how the rest is read:
//!
//! | first byte | |
//! | --- | --- |
//! | even | the rest is the message |
//! | odd | the rest is a payload, which gets a right header |
//! | odd, and bit 1 | the payload is cut, or extended by zeros, to the length of a right one before |
//!
//! A decoder must not panic. What it takes must come out the same when encoded again, since a message has
//! one form only, and what it refuses must have a text.

use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use gristmill::he::lwe::params::LweParameters;
use gristmill::pir::keys::KeyTable;
use gristmill::pir::layout::LayoutPolicy;
use gristmill::pir::records::{KeyColumn, ReadOptions, Records};
use gristmill::pir::simple::{Answer, Database, Hint, Parameters, Query};
use gristmill::wire::{HEADER_BYTES, Kind, VERSION};
use sha2::{Digest as _, Sha256};

/// What messages are about: a database so small that a run costs little.
pub struct Context {
    /// Its parameters.
    pub parameters: Parameters,
    /// Its keys.
    pub keys: KeyTable,
}

/// What a decoder made of a message: what it took, encoded again, or why it refused it.
pub type Decoded = Result<Vec<u8>, Box<dyn Error>>;

/// One decoder.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// What its messages are.
    pub kind: Kind,
    /// The identity that the header of a right message with this payload has.
    pub identity: fn(&Context, &[u8]) -> [u8; 32],
    /// Payloads of right messages, at least one.
    pub payloads: fn(&Context) -> Vec<Vec<u8>>,
    /// Decodes, and encodes what came out again.
    pub decode: fn(&Context, &[u8]) -> Decoded,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "parameters",
        kind: Kind::Parameters,
        identity: |_, payload| {
            let hash = Sha256::new().chain_update(b"gristmill simple parameters 1");
            hash.chain_update(payload).finalize().into()
        },
        payloads: |context| {
            let lines = ReadOptions::default();
            let lines = Records::from_bytes(Path::new("f.txt"), &b"a\nb\nc\n"[..], &lines);
            let lines = database(&lines.expect("they are lines"));
            [context.parameters.to_bytes(), lines.parameters().to_bytes()]
                .map(|message| message[HEADER_BYTES..].to_vec())
                .into()
        },
        decode: |_, message| {
            let parameters = Parameters::from_bytes(message)?;
            assert!(parameters.log2_failure() <= -40.0);
            Ok(parameters.to_bytes())
        },
    },
    Target {
        name: "hint",
        kind: Kind::Hint,
        identity: of_database,
        payloads: |Context { parameters, .. }| {
            vec![some_bytes(parameters.layout().hint_bytes(parameters.lwe()))]
        },
        decode: |context, message| Ok(Hint::from_bytes(message, &context.parameters)?.to_bytes()),
    },
    Target {
        name: "query",
        kind: Kind::Query,
        identity: of_database,
        payloads: |context| vec![some_bytes(16 + context.parameters.layout().up_bytes())],
        decode: |context, message| Ok(Query::from_bytes(message, &context.parameters)?.to_bytes()),
    },
    Target {
        name: "answer",
        kind: Kind::Answer,
        identity: of_database,
        payloads: |context| vec![some_bytes(16 + context.parameters.layout().down_bytes())],
        decode: |context, message| Ok(Answer::from_bytes(message, &context.parameters)?.to_bytes()),
    },
    Target {
        name: "key_table",
        kind: Kind::KeyTable,
        identity: of_database,
        payloads: |context| vec![context.keys.to_bytes()[HEADER_BYTES..].to_vec()],
        decode: |context, message| {
            let keys = KeyTable::from_bytes(message, &context.parameters)?;
            assert_eq!(keys.len() as u64, context.parameters.layout().records());
            let found = keys.find(b"bc");
            assert!(found.is_err() || found.is_ok_and(|index| index < keys.len() as u64));
            Ok(keys.to_bytes())
        },
    },
];

/// The identity that messages about the database of the context have.
pub fn of_database(context: &Context, _payload: &[u8]) -> [u8; 32] {
    *context.parameters.identity().bytes()
}

fn some_bytes(count: u64) -> Vec<u8> {
    (0..count).map(|at| at as u8).collect()
}

fn database(records: &Records) -> Database {
    let policy = LayoutPolicy::default();
    Database::build(records, LweParameters::STANDARD, &policy).expect("a few records fit")
}

/// The context, made once.
pub fn context() -> &'static Context {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    CONTEXT.get_or_init(|| {
        let options = ReadOptions {
            keys: KeyColumn::First,
            ..ReadOptions::default()
        };
        let file = &b"key,value\na,1\nbc,22\ndef,\n"[..];
        let records = Records::from_bytes(Path::new("f.csv"), file, &options);
        let records = records.expect("it is a table");
        let parameters = database(&records).parameters().clone();
        let keys = KeyTable::build(&records, &parameters).expect("it has keys");
        Context { parameters, keys }
    })
}

impl Target {
    /// A message with this payload and a right header, written down here once more.
    pub fn framed(&self, payload: &[u8]) -> Vec<u8> {
        let mut message = b"GMPR".to_vec();
        message.extend(VERSION.to_le_bytes());
        message.extend((self.kind as u16).to_le_bytes());
        message.extend((self.identity)(context(), payload));
        message.extend((payload.len() as u64).to_le_bytes());
        assert_eq!(message.len(), HEADER_BYTES);
        message.extend_from_slice(payload);
        message
    }

    /// Tries one input, whose first byte says how the rest is read. `right` is the length of a right
    /// payload.
    ///
    /// # Panics
    ///
    /// Where the decoder has a fault.
    pub fn run(&self, input: &[u8], right: usize) {
        let Some((how, rest)) = input.split_first() else {
            return;
        };
        match how & 3 {
            1 => self.decode_one(&self.framed(rest)),
            3 => {
                let mut payload = rest.to_vec();
                payload.resize(right, 0);
                self.decode_one(&self.framed(&payload));
            }
            _ => self.decode_one(rest),
        }
    }

    fn decode_one(&self, message: &[u8]) {
        match (self.decode)(context(), message) {
            Ok(again) => assert!(again == message, "a message with two forms"),
            Err(error) => assert!(!error.to_string().is_empty(), "an error without a text"),
        }
    }

    /// The length of the first right payload.
    pub fn right_length(&self) -> usize {
        (self.payloads)(context()).first().map_or(0, Vec::len)
    }

    /// Writes the inputs to start from into `folder`/NAME, each read in every way.
    ///
    /// # Errors
    ///
    /// Where a file cannot be written.
    ///
    /// # Panics
    ///
    /// Where the decoder refuses one.
    pub fn write_seeds(&self, folder: &Path) -> io::Result<()> {
        let folder = folder.join(self.name);
        fs::create_dir_all(&folder)?;
        for (at, payload) in (self.payloads)(context()).into_iter().enumerate() {
            let message = self.framed(&payload);
            if let Err(error) = (self.decode)(context(), &message) {
                panic!("{}: payload {at} is refused: {error}", self.name);
            }
            for (how, rest) in [(0, &message), (1, &payload), (3, &payload)] {
                let input = [&[how], rest.as_slice()].concat();
                fs::write(folder.join(format!("{at}-{how}")), input)?;
            }
        }
        Ok(())
    }
}
