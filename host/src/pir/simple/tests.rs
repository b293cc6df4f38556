//! The protocol against the plain product: sizes, faults that others had, noise, secrets, messages.

use std::path::Path;

use chacha20::ChaCha20Rng;
use proptest::prelude::*;
use rand::SeedableRng as _;

use super::*;
use crate::he::lwe::params::{NoiseModel, ParameterError};
use crate::he::security::MAX_LOG2_FAILURE;
use crate::pir::keys::KeyTable;
use crate::pir::product::reference::Reference;
use crate::pir::records::{FileFormat, KeyColumn, ReadOptions, RecordError, RecordLimits};

const LWE: LweParameters = LweParameters::STANDARD;

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn random_bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut rng(seed), &mut bytes);
    bytes
}

fn binary(data: Vec<u8>, record_bytes: usize) -> Records {
    let options = ReadOptions {
        record_bytes: Some(record_bytes),
        ..ReadOptions::default()
    };
    Records::from_bytes(Path::new("test.bin"), data, &options).unwrap()
}

fn lines(text: impl Into<Vec<u8>>) -> Records {
    Records::from_bytes(Path::new("test.txt"), text.into(), &ReadOptions::default()).unwrap()
}

/// Server and client, with every message sent as bytes.
struct Pair {
    server: Server,
    client: Client,
}

impl Pair {
    fn new(records: &Records) -> Self {
        Self::of(&Database::build(records, LWE, &LayoutPolicy::default()).unwrap())
    }

    fn of(database: &Database) -> Self {
        let server = Server::new(database, &Reference, &mut |_| ()).unwrap();
        let parameters = Parameters::from_bytes(&server.parameters().to_bytes()).unwrap();
        let hint = Hint::from_bytes(&server.hint().to_bytes(), &parameters).unwrap();
        assert_eq!((&parameters, &hint), (server.parameters(), server.hint()));
        Self {
            client: Client::new(parameters, hint).unwrap(),
            server,
        }
    }

    fn answer(&self, query: &Query) -> Answer {
        let query = Query::from_bytes(&query.to_bytes(), self.server.parameters()).unwrap();
        let answer = self.server.answer(&query).unwrap();
        Answer::from_bytes(&answer.to_bytes(), self.client.parameters()).unwrap()
    }

    fn get(&self, index: u64) -> Vec<u8> {
        let (query, state) = self.client.key().unwrap().query(index).unwrap();
        state.recover(&self.answer(&query)).unwrap()
    }

    fn assert_all(&self, records: &Records) {
        for (index, record) in (0..).zip(records.iter()) {
            assert_eq!(
                self.get(index),
                record,
                "record {index} of {:?}",
                self.client.parameters().layout()
            );
        }
    }
}

/// Others answer wrongly for small databases of small entries.
#[test]
fn every_record_of_small_databases_of_1_to_8_bytes() {
    for record_bytes in 1..=8 {
        for records in [1, 2, 3, 31, 100] {
            let records = binary(random_bytes(records * record_bytes, 1), record_bytes);
            Pair::new(&records).assert_all(&records);
        }
    }
}

#[test]
fn a_thousand_records_of_1_and_of_8_bytes() {
    for record_bytes in [1, 8] {
        let records = binary(random_bytes(1000 * record_bytes, 2), record_bytes);
        let pair = Pair::new(&records);
        for index in (0..1000).step_by(37).chain([999]) {
            assert_eq!(
                Some(&pair.get(index)[..]),
                records.get(index as usize),
                "{index}"
            );
        }
    }
}

/// Others refuse a database of zeros.
#[test]
fn databases_of_one_value() {
    for byte in [0, 1, 127, 128, 255] {
        let records = binary(vec![byte; 60], 3);
        Pair::new(&records).assert_all(&records);
    }
}

#[test]
fn one_record() {
    for text in [
        "x",
        "",
        "a longer line, of more bytes than there are columns",
    ] {
        let records = lines(format!("{text}\n"));
        Pair::new(&records).assert_all(&records);
    }
}

/// Others index out of range when entries are wider than one limb.
#[test]
fn wide_records_span_columns() {
    let records = binary(random_bytes(3 * (32 << 10), 3), 32 << 10);
    let pair = Pair::new(&records);
    assert!(pair.client.parameters().layout().columns_per_record() > 1);
    pair.assert_all(&records);
}

/// Others take an item size that just fits and fail one byte later.
#[test]
fn an_item_of_the_limit_and_one_byte_less_and_more() {
    let limits = RecordLimits {
        record_bytes: 300,
        ..RecordLimits::default()
    };
    let options = ReadOptions {
        limits,
        ..ReadOptions::default()
    };
    for bytes in [299, 300, 301] {
        let text = [&[b'a'; 3][..], b"\n", &vec![b'b'; bytes], b"\n"].concat();
        match Records::from_bytes(Path::new("test.txt"), text, &options) {
            Ok(records) => {
                assert!(bytes <= 300);
                Pair::new(&records).assert_all(&records);
            }
            Err(error) => assert!(matches!(
                error,
                RecordError::TooLong {
                    line: 2,
                    bytes: 301,
                    limit: 300,
                    ..
                }
            )),
        }
    }
}

/// The length prefix grows at these sizes.
#[test]
fn lengths_around_a_byte_of_prefix() {
    for longest in [254, 255, 256, 257] {
        let records = lines(format!("a\n\n{}\nbc\n", "x".repeat(longest)));
        Pair::new(&records).assert_all(&records);
    }
}

/// Whole slots in a column and slots over columns, whichever the sizes would choose.
#[test]
fn every_kind_of_layout_gives_every_record() {
    let records = lines("one\ntwo\n\nfour\nfifteen\nsix\n7\n");
    for (per_column, per_record) in [
        (1, 1),
        (2, 1),
        (3, 1),
        (6, 1),
        (7, 1),
        (1, 2),
        (1, 3),
        (1, 4),
        (1, 8),
    ] {
        let layout = Layout::from_parts(7, 7, 1, per_column, per_record, &LWE).unwrap();
        Pair::of(&Database::with_layout(&records, LWE, layout).unwrap()).assert_all(&records);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// 1 record, numbers that are no power of two, records of 1 byte, records larger than a column.
    #[test]
    fn random_sizes_of_binary_records(
        count in prop_oneof![Just(1_usize), 2_usize..50, 50_usize..400],
        record_bytes in prop_oneof![Just(1_usize), 2_usize..40, 500_usize..700],
        seed: u64,
        at: prop::sample::Index,
    ) {
        let records = binary(random_bytes(count * record_bytes, seed), record_bytes);
        let pair = Pair::new(&records);
        for index in [0, count - 1, at.index(count)] {
            prop_assert_eq!(Some(&pair.get(index as u64)[..]), records.get(index));
        }
    }

    #[test]
    fn random_lines_in_random_layouts(
        text in prop::collection::vec("[a-zé]{0,40}", 1..60),
        per_column in 1_u32..8,
        per_record in 2_u32..8,
        span: bool,
        at: prop::sample::Index,
    ) {
        let records = lines(text.join("\n") + "\n");
        let (count, longest) = (records.len() as u64, records.longest() as u32);
        // Over as many columns as hold something.
        let height = (longest + 1).div_ceil(per_record);
        let per_record = (longest + 1).div_ceil(height);
        let (per_column, per_record) = if span { (1, per_record) } else { (per_column.min(count as u32), 1) };
        let layout = Layout::from_parts(count, longest, 1, per_column, per_record, &LWE).unwrap();
        let pair = Pair::of(&Database::with_layout(&records, LWE, layout).unwrap());
        for index in [0, count as usize - 1, at.index(count as usize)] {
            prop_assert_eq!(Some(&pair.get(index as u64)[..]), records.get(index));
        }
    }
}

#[test]
fn the_other_parameter_set_works_too() {
    let lwe = LweParameters::new(1152, 1600, Secret::Ternary).unwrap();
    let records = binary(random_bytes(200, 4), 4);
    let pair = Pair::of(&Database::build(&records, lwe, &LayoutPolicy::default()).unwrap());
    pair.assert_all(&records);
}

/// The difference of two queries under one secret is an error of a few units in all columns but
/// two; under two secrets it is as good as uniform.
fn share_a_secret(a: &[u32], b: &[u32]) -> bool {
    let small = a
        .iter()
        .zip(b)
        .filter(|(a, b)| (a.wrapping_sub(**b) as i32).unsigned_abs() < 200)
        .count();
    small > a.len() / 2
}

#[test]
fn no_two_queries_share_a_secret() {
    // Records over 4 columns each: 4 vectors a query, none of which may share a secret either.
    let records = binary(random_bytes(5 * 40, 5), 40);
    let layout = Layout::from_parts(5, 40, 0, 1, 4, &LWE).unwrap();
    let pair = Pair::of(&Database::with_layout(&records, LWE, layout).unwrap());
    let mut vectors: Vec<Vec<u32>> = Vec::new();
    for round in 0..12 {
        // The same index again and again is where a reused secret would give equal queries.
        let (query, _) = pair.client.key().unwrap().query(round % 2).unwrap();
        vectors.extend(
            query
                .words()
                .chunks(layout.columns() as usize)
                .map(<[u32]>::to_vec),
        );
    }
    assert_eq!(vectors.len(), 48);
    for (i, a) in vectors.iter().enumerate() {
        assert!(
            vectors[..i].iter().all(|b| !share_a_secret(a, b)),
            "vector {i} shares a secret"
        );
    }
}

/// The detector of the test above, on two queries that do share one.
#[test]
fn a_shared_secret_would_be_noticed() {
    let records = binary(random_bytes(40, 5), 1);
    let pair = Pair::new(&records);
    // The same generator twice: what no caller can do.
    let one = pair.client.key_from(&mut rng(1)).query(3).unwrap().0;
    let two = pair.client.key_from(&mut rng(1)).query(9).unwrap().0;
    assert!(share_a_secret(one.words(), two.words()));
}

/// The queries for two records differ, and each is no nearer to one column than to another: without the
/// secret every word of a query looks uniform.
#[test]
fn queries_look_uniform() {
    let records = binary(random_bytes(2000, 6), 1);
    let pair = Pair::new(&records);
    let mut top_bytes = [0_u32; 256];
    let mut words = 0_u32;
    for _ in 0..60 {
        let (query, _) = pair.client.key().unwrap().query(77).unwrap();
        for word in query.words() {
            top_bytes[(word >> 24) as usize] += 1;
            words += 1;
        }
    }
    let expected = f64::from(words) / 256.0;
    let chi_squared: f64 = top_bytes
        .iter()
        .map(|&n| (f64::from(n) - expected).powi(2) / expected)
        .sum();
    assert!(
        chi_squared < 255.0 + 6.0 * (2.0_f64 * 255.0).sqrt(),
        "{chi_squared} over {words} words"
    );
}

/// The error of many answers, row by row, against the model of that row and of the worst case.
#[test]
fn noise_is_within_the_model() {
    // 8 rows, 1500 columns: rows of zeros (-128: the worst case), of 128 (nothing), and random ones.
    let mut data = random_bytes(8 * 1500, 7);
    for record in data.chunks_mut(8) {
        record[0] = 0;
        record[1] = 128;
    }
    let records = binary(data, 8);
    let layout = Layout::from_parts(1500, 8, 0, 1, 1, &LWE).unwrap();
    let database = Database::with_layout(&records, LWE, layout).unwrap();
    let pair = Pair::of(&database);
    let mut noise: Vec<Vec<f64>> = vec![Vec::new(); 8];
    let mut rng = rng(8);
    const ANSWERS: usize = 150;
    for _ in 0..ANSWERS {
        let index = rng.random_range(0..1500);
        let (query, state) = pair.client.key().unwrap().query(index).unwrap();
        let answer = pair.answer(&query);
        for (row, noise) in noise.iter_mut().enumerate() {
            let entry = i32::from(database.matrix().row(row)[index as usize]);
            let exact = state.hint[row].wrapping_add(DELTA.wrapping_mul(entry as u32));
            noise.push(f64::from(answer.words()[row].wrapping_sub(exact) as i32));
        }
    }
    let worst = NoiseModel::worst_case(&LWE, 1500).standard_deviation();
    for (row, noise) in noise.iter().enumerate() {
        let squares: u64 = database
            .matrix()
            .row(row)
            .iter()
            .map(|&b| u64::from(b.unsigned_abs()).pow(2))
            .sum();
        let model = NoiseModel::of_row(&LWE, squares).standard_deviation();
        let measured = (noise.iter().map(|x| x * x).sum::<f64>() / ANSWERS as f64).sqrt();
        // The relative deviation of a standard deviation of 150 samples is 5.8 %: four of them.
        assert!(
            (measured - model).abs() <= 0.24 * model,
            "row {row}: {measured} for {model}"
        );
        assert!(model <= worst * 1.000_001 && noise.iter().all(|x| x.abs() < 7.0 * worst));
        if row == 0 {
            assert!(
                (model / worst - 1.0).abs() < 1e-9,
                "a row of zeros is the worst case"
            );
        }
        if row == 1 {
            assert!(measured == 0.0, "a row of 128 adds no noise");
        }
    }
    assert!(pair.client.parameters().log2_failure() <= MAX_LOG2_FAILURE);
}

/// Others give empty values after an update until the client is restarted.
#[test]
fn a_changed_database_is_noticed_on_both_sides() {
    let mut data = random_bytes(64, 9);
    let old = Pair::new(&binary(data.clone(), 2));
    data[63] ^= 1;
    let new = Pair::new(&binary(data, 2));
    assert_ne!(
        old.client.parameters().identity(),
        new.client.parameters().identity()
    );
    let (query, state) = old.client.key().unwrap().query(3).unwrap();
    let error = new.server.answer(&query).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the query is for another database or other parameters: fetch parameters and hint again"
    );
    let (kind, parameters) = (Kind::Query, new.server.parameters());
    assert_eq!(
        Query::from_bytes(&query.to_bytes(), parameters),
        Err(WireError::Identity { kind })
    );
    let (query, _) = new.client.key().unwrap().query(3).unwrap();
    let answer = new.server.answer(&query).unwrap();
    assert_eq!(state.recover(&answer), Err(RecoverError::OtherDatabase));
    let hint = old.server.hint().clone();
    assert!(Client::new(new.server.parameters().clone(), hint).is_err());
}

#[test]
fn a_server_that_starts_again_has_the_same_hint() {
    let records = binary(random_bytes(64, 9), 2);
    let (a, b) = (Pair::new(&records), Pair::new(&records));
    assert_eq!(a.server.hint(), b.server.hint());
    assert_eq!(a.server.parameters(), b.server.parameters());
}

#[test]
fn an_answer_to_another_query_is_refused() {
    let pair = Pair::new(&binary(random_bytes(64, 10), 2));
    let (_, first) = pair.client.key().unwrap().query(3).unwrap();
    let (query, _) = pair.client.key().unwrap().query(3).unwrap();
    assert_eq!(
        first.recover(&pair.answer(&query)),
        Err(RecoverError::OtherQuery)
    );
}

#[test]
fn an_answer_of_noise_is_no_record() {
    let pair = Pair::new(&lines("one\ntwo two two two two two two two two\n"));
    let mut refused = 0;
    for seed in 0..20 {
        let (query, state) = pair.client.key().unwrap().query(0).unwrap();
        let mut answer = pair.answer(&query);
        let mut rng = rng(seed);
        answer.words.fill_with(|| rng.random());
        refused += u32::from(state.recover(&answer) == Err(RecoverError::Corrupt));
    }
    // A length that fits with padding behind it comes by chance in about 1 of 256.
    assert!(refused >= 18, "{refused}");
}

#[test]
fn an_answer_of_the_wrong_size_is_refused() {
    let pair = Pair::new(&binary(random_bytes(64, 10), 2));
    let (query, state) = pair.client.key().unwrap().query(3).unwrap();
    let mut answer = pair.answer(&query);
    answer.words.push(0);
    let (expected, found) = (answer.words.len() - 1, answer.words.len());
    assert_eq!(
        state.recover(&answer),
        Err(RecoverError::Length { expected, found })
    );
}

#[test]
fn an_index_past_the_end_is_refused() {
    let pair = Pair::new(&binary(random_bytes(30, 11), 3));
    for index in [10, 11, u64::MAX] {
        let error = pair.client.key().unwrap().query(index).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("index {index} is past the end: the database has 10 records, 0 to 9")
        );
        assert!(pair.client.check_index(index).is_err());
    }
    assert!(pair.client.check_index(9).is_ok());
}

/// A layout for one set of parameters can fail under another.
#[test]
fn a_layout_of_other_parameters_is_refused() {
    let wide = LweParameters::new(1152, 1600, Secret::Ternary).unwrap();
    let count = u64::from(wide.max_columns(1)) + 1;
    let layout = Layout::from_parts(count, 1, 0, 1, 1, &LWE).unwrap();
    let records = binary(random_bytes(count as usize, 12), 1);
    assert!(Database::with_layout(&records, LWE, layout).is_ok());
    assert!(matches!(
        Database::with_layout(&records, wide, layout),
        Err(LayoutError::TooManyColumns { .. })
    ));
}

/// A server cannot talk a client into weak parameters: not SimplePIR as published, no smaller error, no
/// other modulus, no layout that fails.
#[test]
fn parameters_below_the_mark_are_refused_from_a_message() {
    let pair = Pair::new(&binary(random_bytes(64, 12), 2));
    let good = pair.server.parameters().to_bytes();
    let forged = |at: usize, field: &[u8]| {
        let mut payload = good[48..].to_vec();
        payload[at..at + field.len()].copy_from_slice(field);
        let mut hash = Sha256::new();
        hash.update(b"gristmill simple parameters 1");
        hash.update(&payload);
        let bytes = frame(
            Kind::Parameters,
            &Identity(hash.finalize().into()),
            &[&payload],
        );
        Parameters::from_bytes(&bytes).map_err(|e| e.to_string())
    };
    assert!(forged(0, &1280_u32.to_le_bytes()).is_ok());
    // One record of 100 MiB over 1024 columns.
    let work = [&1_u64.to_le_bytes()[..], &(100_u32 << 20).to_le_bytes()].concat();
    let work = [&work[..], &1_u32.to_le_bytes(), &1024_u32.to_le_bytes()].concat();
    let refused: [(usize, &[u8], &str); 9] = [
        (0, &1024_u32.to_le_bytes(), "is in no estimate"),
        (4, &255_u32.to_le_bytes(), "is in no estimate"),
        (8, &[1], "reaches 121.5 bits and 128 are asked for"),
        (8, &[2], "distribution 2 of the secret"),
        (9, &[31], "q = 2^31"),
        (12, &0_u64.to_le_bytes(), "at least one record"),
        (12, &(1_u64 << 40).to_le_bytes(), "columns"),
        (20, &u32::MAX.to_le_bytes(), "messages of"),
        (12, &work, "multiplications of the client"),
    ];
    for (at, field, expected) in refused {
        let error = forged(at, field).unwrap_err();
        assert!(
            error.starts_with("the parameters cannot be used: ") && error.contains(expected),
            "{error}"
        );
    }
    // And a change without a new hash is no message at all.
    let mut bytes = good;
    bytes[48 + 40] ^= 1;
    assert!(
        Parameters::from_bytes(&bytes)
            .unwrap_err()
            .to_string()
            .contains("their hash")
    );
    // The same set of parameters in code.
    assert!(matches!(
        LweParameters::new(1024, 640, Secret::Uniform),
        Err(ParameterError::TooWeak { .. })
    ));
}

/// Every message of one small database, with what reads it.
fn messages() -> (Pair, Vec<(Kind, Vec<u8>)>) {
    let options = ReadOptions {
        keys: KeyColumn::First,
        ..ReadOptions::default()
    };
    let records = Records::from_bytes(
        Path::new("test.csv"),
        &b"k,v\na,1\nbc,2\nd,3\n"[..],
        &options,
    )
    .unwrap();
    let pair = Pair::new(&records);
    let (query, _) = pair.client.key().unwrap().query(1).unwrap();
    let answer = pair.answer(&query);
    let table = KeyTable::build(&records, pair.server.parameters()).unwrap();
    let messages = vec![
        (Kind::Parameters, pair.server.parameters().to_bytes()),
        (Kind::Hint, pair.server.hint().to_bytes()),
        (Kind::Query, query.to_bytes()),
        (Kind::Answer, answer.to_bytes()),
        (Kind::KeyTable, table.to_bytes()),
    ];
    (pair, messages)
}

/// Reads bytes as a message of this kind, and gives them back as they would be sent again.
fn read(kind: Kind, bytes: &[u8], parameters: &Parameters) -> Result<Vec<u8>, WireError> {
    Ok(match kind {
        Kind::Parameters => Parameters::from_bytes(bytes)?.to_bytes(),
        Kind::Hint => Hint::from_bytes(bytes, parameters)?.to_bytes(),
        Kind::Query => Query::from_bytes(bytes, parameters)?.to_bytes(),
        Kind::Answer => Answer::from_bytes(bytes, parameters)?.to_bytes(),
        Kind::KeyTable => KeyTable::from_bytes(bytes, parameters)?.to_bytes(),
    })
}

#[test]
fn messages_come_back_and_nothing_near_them_does() {
    let (pair, messages) = messages();
    let parameters = pair.server.parameters();
    for (kind, bytes) in &messages {
        assert_eq!(read(*kind, bytes, parameters).as_ref(), Ok(bytes));
        // Cut anywhere in the header, and at a hundred places behind it.
        let cuts = (0..48).chain((48..bytes.len()).step_by(bytes.len() / 100 + 1));
        for cut in cuts {
            assert!(
                read(*kind, &bytes[..cut], parameters).is_err(),
                "{kind} cut to {cut}"
            );
        }
        let long = [&bytes[..], &[0]].concat();
        assert!(
            read(*kind, &long, parameters).is_err(),
            "{kind} with a byte more"
        );
        // Each bit of the header matters.
        for bit in 0..48 * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                read(*kind, &flipped, parameters).is_err(),
                "{kind} with bit {bit} flipped"
            );
        }
        // No message is taken for another.
        for (other, _) in &messages {
            assert_eq!(
                read(*other, bytes, parameters).is_ok(),
                other == kind,
                "{kind} as {other}"
            );
        }
    }
}

/// Others panic on a garbage body of a byte or a megabyte.
#[test]
fn garbage_of_a_byte_and_of_a_megabyte_is_refused() {
    let (pair, messages) = messages();
    for (kind, good) in &messages {
        for size in [0, 1, 47, 48, 49, 1 << 20] {
            let garbage = random_bytes(size, 13);
            assert!(read(*kind, &garbage, pair.server.parameters()).is_err());
            // Garbage behind a good header.
            let mut bytes = good[..48].to_vec();
            bytes.extend(&garbage);
            if bytes.len() != good.len() {
                assert!(read(*kind, &bytes, pair.server.parameters()).is_err());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any change of a message is refused or is another message in its own right; nothing panics,
    /// neither in reading nor in what the server and the client do with it.
    #[test]
    fn changed_messages_are_refused_or_read(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
    ) {
        let (pair, messages) = messages();
        let parameters = pair.server.parameters();
        for (kind, good) in &messages {
            let mut bytes = good.clone();
            for (at, value) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            if let Ok(again) = read(*kind, &bytes, parameters) {
                prop_assert_eq!(&again, &bytes);
            }
            if let (Kind::Query, Ok(query)) = (kind, Query::from_bytes(&bytes, parameters)) {
                prop_assert!(pair.server.answer(&query).is_ok());
            }
            if let (Kind::KeyTable, Ok(table)) = (kind, KeyTable::from_bytes(&bytes, parameters)) {
                prop_assert!(table.find(b"a").map_or(true, |index| index < 3));
            }
        }
    }
}

/// The format of messages and the public matrix are stable: the hashes of parameters and hint change only
/// with a new version. Those of query and answer also change with how a client draws its secret and error
/// from the generator, which is no part of the format (last: 128 bits for a coefficient of the secret).
#[test]
fn messages_are_stable() {
    let pair = Pair::new(&lines("one\ntwo\nthree\n"));
    let (query, state) = pair.client.key_from(&mut rng(1)).query(2).unwrap();
    let answer = pair.answer(&query);
    assert_eq!(state.recover(&answer).as_deref(), Ok(&b"three"[..]));
    let hash = |bytes: Vec<u8>| Identity(Sha256::digest(bytes).into()).to_string()[..16].to_owned();
    let found = [
        hash(pair.server.parameters().to_bytes()),
        hash(pair.server.hint().to_bytes()),
        hash(query.to_bytes()),
        hash(answer.to_bytes()),
    ];
    assert_eq!(
        found,
        [
            "57c0e770dda720d4",
            "e0e17c0851216a13",
            "079c16c5f820e3e2",
            "76bd5974686a5e55"
        ]
    );
}

#[test]
fn sizes_said_are_sizes_sent() {
    for (records, bytes) in [(100, 3), (5, 1000)] {
        let pair = Pair::new(&binary(random_bytes(records * bytes, 14), bytes));
        let (parameters, (query, _)) = (
            pair.client.parameters(),
            pair.client.key().unwrap().query(1).unwrap(),
        );
        let layout = parameters.layout();
        assert_eq!(
            pair.server.hint().to_bytes().len() as u64,
            48 + layout.hint_bytes(&LWE)
        );
        assert_eq!(query.to_bytes().len() as u64, 48 + 16 + layout.up_bytes());
        assert_eq!(
            pair.answer(&query).to_bytes().len() as u64,
            48 + 16 + layout.down_bytes()
        );
    }
}

#[test]
fn an_engine_of_the_wrong_size_is_noticed() {
    struct Short;
    impl Engine for Short {
        fn describe(&self) -> String {
            "short".to_owned()
        }
        fn l2_bytes(&self) -> u64 {
            0
        }
        fn load(&self, _: &ByteMatrix) -> Result<Box<dyn Product>, EngineError> {
            Ok(Box::new(Short))
        }
    }
    impl Product for Short {
        fn multiply(&self, x: &[u32]) -> Result<Vec<u32>, EngineError> {
            Ok(x.to_vec())
        }
    }
    let database = Database::build(
        &binary(random_bytes(64, 15), 2),
        LWE,
        &LayoutPolicy::default(),
    )
    .unwrap();
    assert!(Server::new(&database, &Short, &mut |_| ()).is_err());
}

#[test]
fn keys_lead_to_their_records() {
    let csv = "id,name\nzrh,Zürich\na,\nlonger key,x\n\"q,\"\"uoted\",y\n";
    let options = ReadOptions {
        keys: KeyColumn::Named("id".to_owned()),
        format: Some(FileFormat::Csv),
        ..ReadOptions::default()
    };
    let records = Records::from_bytes(Path::new("test"), csv.as_bytes(), &options).unwrap();
    let pair = Pair::new(&records);
    let table = KeyTable::build(&records, pair.server.parameters()).unwrap();
    let table = KeyTable::from_bytes(&table.to_bytes(), pair.client.parameters()).unwrap();
    for (index, key) in ["zrh", "a", "longer key", "q,\"uoted"]
        .into_iter()
        .enumerate()
    {
        assert_eq!(table.find(key.as_bytes()), Ok(index as u64));
        assert_eq!(Some(&pair.get(index as u64)[..]), records.get(index));
    }
    for absent in [
        "",
        "zr",
        "zrhx",
        "zrh\0",
        "ZRH",
        "a key longer than all others",
    ] {
        assert_eq!(table.find(absent.as_bytes()).unwrap_err().key, absent);
    }
    assert!(KeyTable::build(&lines("a\n"), pair.server.parameters()).is_none());
}
