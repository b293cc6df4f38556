use super::matrix::signed;
use super::*;
use crate::he::security::Secret;
use crate::pir::records::ReadOptions;
use proptest::prelude::*;
use std::path::Path;

const LWE: LweParameters = LweParameters::STANDARD;

fn shape(records: u64, longest: u64) -> RecordShape {
    RecordShape {
        records,
        longest,
        of_one_length: true,
        total_bytes: records * longest,
    }
}

fn choose(records: u64, longest: u64) -> Result<Layout, LayoutError> {
    Layout::choose(&shape(records, longest), &LWE, &LayoutPolicy::default())
}

#[test]
fn bytes_are_stored_less_128() {
    assert_eq!([0, 1, 127, 128, 255].map(signed), [-128, -127, -1, 0, 127]);
    assert_eq!(signed(PADDING), 0);
}

#[test]
fn slots_know_their_prefix() {
    let slot_of = |longest, of_one_length| {
        slot(&RecordShape {
            records: 1,
            longest,
            of_one_length,
            total_bytes: 1,
        })
    };
    assert_eq!(slot_of(8, true), Ok((0, 8)));
    assert_eq!(slot_of(0, true), Ok((1, 1)));
    for (longest, prefix) in [
        (0, 1),
        (255, 1),
        (256, 2),
        (65535, 2),
        (65536, 3),
        (1 << 24, 4),
    ] {
        assert_eq!(
            slot_of(longest, false),
            Ok((prefix, longest + u64::from(prefix))),
            "{longest}"
        );
    }
}

/// Others die on small databases of small entries.
#[test]
fn small_databases_have_layouts() {
    for records in [1, 2, 3, 100, 1_000] {
        for bytes in 1..=8 {
            let layout = choose(records, bytes).unwrap();
            assert!(
                layout.database_bytes() >= records * bytes,
                "{records} x {bytes}"
            );
            assert!(
                layout.database_bytes() < 2 * records * bytes + 64 * bytes,
                "{records} x {bytes}: {layout:?}"
            );
        }
    }
}

/// Others die at 2^20 entries of one bit; a byte is the least here.
#[test]
fn a_million_tiny_entries_have_a_layout() {
    let layout = choose(1 << 20, 1).unwrap();
    assert!(layout.columns() <= LWE.max_columns(1).into());
    assert!(layout.hint_bytes(&LWE) < 4 << 20, "{layout:?}");
}

/// Others' parameter search works in one order of sizes only.
#[test]
fn every_order_of_sizes_has_a_layout() {
    for log2_records in 0..=20 {
        for log2_bytes in 0..=(30 - log2_records).min(20) {
            let layout = choose(1 << log2_records, 1 << log2_bytes).unwrap();
            assert!(
                layout.hint_bytes(&LWE) <= 1 << 30,
                "2^{log2_records} x 2^{log2_bytes}"
            );
        }
    }
}

/// Others' hint explodes in silence at 2^16 records of 28,672 bits.
#[test]
fn wide_records_keep_the_hint_small() {
    let layout = choose(1 << 16, 3584).unwrap();
    assert!(
        layout.hint_bytes(&LWE) <= 20 << 20,
        "{} bytes",
        layout.hint_bytes(&LWE)
    );
    assert!(layout.hint_bytes(&LWE) < layout.database_bytes() / 10);
}

/// A hundred million rows: whole records share columns, columns stay within the samples.
#[test]
fn a_hundred_million_rows_have_a_layout() {
    let layout = choose(100_000_000, 8).unwrap();
    assert!(layout.hint_bytes(&LWE) < 64 << 20, "{layout:?}");
    assert_eq!(layout.columns_per_record(), 1);
}

#[test]
fn few_large_records_span_columns() {
    let layout = choose(10, 32 << 10).unwrap();
    assert!(layout.columns_per_record() > 1, "{layout:?}");
    assert!(layout.rows() * u64::from(layout.columns_per_record()) >= 32 << 10);
    assert_eq!(
        layout.columns(),
        10 * u64::from(layout.columns_per_record())
    );
    assert!(
        layout.hint_bytes(&LWE) < (4 * 1280) << 15,
        "no smaller than a column a record"
    );
}

#[test]
fn a_tight_limit_of_the_hint_is_kept() {
    let shape = shape(7884, 172);
    for (hint_bytes, per_column) in [(880_640, 1), (1_761_279, 1), (1_761_280, 2)] {
        let policy = LayoutPolicy {
            hint_bytes,
            // A hint that costs nothing: only the limit holds it.
            queries_per_hint: u32::MAX,
            ..LayoutPolicy::default()
        };
        let layout = Layout::choose(&shape, &LWE, &policy).unwrap();
        assert_eq!(layout.records_per_column(), per_column, "{hint_bytes}");
    }
}

#[test]
fn explosions_are_refused_with_their_numbers() {
    let policy = LayoutPolicy::default();
    let database = choose(1 << 20, 1 << 14).unwrap_err();
    assert_eq!(
        database.to_string(),
        "1048576 records padded to 16384 bytes each take 17179869184 bytes and 8589934592 are allowed: split the database"
    );
    let one_long = RecordShape {
        records: 10_000,
        longest: 1 << 18,
        of_one_length: false,
        total_bytes: 1 << 19,
    };
    let padding = Layout::choose(&one_long, &LWE, &policy).unwrap_err();
    assert_eq!(
        padding.to_string(),
        "524288 bytes of records become 2621470000 when each is padded to the longest, 262144 bytes: shorten or split the long ones"
    );
    let small = LayoutPolicy {
        hint_bytes: 100_000,
        ..policy
    };
    let hint = Layout::choose(&shape(1 << 20, 1 << 10), &LWE, &small).unwrap_err();
    assert_eq!(
        hint.to_string(),
        "the smallest hint for 1048576 records of 1024 bytes takes 5242880 bytes and 100000 are allowed: split the database"
    );
    assert_eq!(
        Layout::choose(&shape(0, 8), &LWE, &policy),
        Err(LayoutError::NoRecords)
    );
    assert!(Layout::choose(&shape(1, 1 << 33), &LWE, &policy).is_err());
    let endless = RecordShape {
        records: u64::MAX,
        longest: 1 << 20,
        of_one_length: true,
        total_bytes: u64::MAX,
    };
    assert!(Layout::choose(&endless, &LWE, &policy).is_err());
}

#[test]
fn a_layout_of_a_message_is_checked() {
    let from = |n, s, p, r, c| Layout::from_parts(n, s, p, r, c, &LWE);
    assert!(from(10, 4, 1, 2, 1).is_ok());
    for (n, s, p, r, c) in [
        (0, 4, 1, 1, 1),
        (10, 4, 1, 0, 1),
        (10, 4, 1, 1, 0),
        (10, 4, 1, 2, 2),
        (10, 4, 1, 11, 1),
        (10, 4, 5, 1, 1),
        (10, 0, 0, 1, 1),
        (10, 256, 1, 1, 1),
        (10, 4, 1, 1, 1025),
        (u64::MAX, 4, 1, 1, 1),
        (u64::MAX, u32::MAX, 4, u32::MAX, 1),
        (1 << 21, 4, 1, 1, 1),
    ] {
        assert!(from(n, s, p, r, c).is_err(), "{n} {s} {p} {r} {c}");
    }
}

/// 10 bytes over 6 columns take 5; 1 byte takes 1.
#[test]
fn a_layout_of_a_message_with_empty_columns_is_refused() {
    let waste = LayoutError::Inconsistent("columns that hold nothing");
    for (slot, c) in [(10, 6), (8, 5), (1, 2), (1000, 1001), (1000, 600)] {
        let layout = Layout::from_parts(3, slot, 0, 1, c, &LWE);
        assert_eq!(layout, Err(waste), "{slot} bytes over {c}");
    }
    for (slot, c) in [(10, 5), (10, 4), (8, 8), (1, 1)] {
        assert!(Layout::from_parts(3, slot, 0, 1, c, &LWE).is_ok());
    }
}

/// 3 bytes over 2 columns are read as 4, and a record is refused where the fourth is wrong.
#[test]
fn the_failure_bound_counts_the_fill_behind_a_slot() {
    let layout = Layout::from_parts(10, 3, 0, 1, 2, &LWE).unwrap();
    let four = NoiseModel::worst_case(&LWE, 20).log2_failure(4);
    assert!((layout.log2_failure(&LWE) - four).abs() < 1e-9);
    // Noise and not samples limits this set, so the count shows in what is refused.
    let lwe = LweParameters::new(1152, 1600, Secret::Ternary).unwrap();
    let from = |columns: u32| Layout::from_parts((columns / 2).into(), 3, 0, 1, 2, &lwe);
    assert!(lwe.max_columns(4) + 2 < lwe.max_columns(3));
    assert!(from(lwe.max_columns(4)).is_ok());
    assert!(matches!(
        from(lwe.max_columns(3)),
        Err(LayoutError::TooManyColumns { .. })
    ));
}

#[test]
fn more_records_than_32_bits_count_do_not_wrap() {
    let policy = LayoutPolicy {
        database_bytes: u64::MAX,
        hint_bytes: u64::MAX,
        queries_per_hint: u32::MAX,
    };
    // With the hint that is allowed all of 2^33 would go into one column; 2^53 records need 2^33 in
    // each.
    for log2_records in [33, 34, 52, 53, 63] {
        for longest in [1, 3, u64::from(u32::MAX)] {
            let shape = RecordShape {
                records: 1 << log2_records,
                longest,
                of_one_length: true,
                total_bytes: u64::MAX,
            };
            let layout = Layout::choose(&shape, &LWE, &policy);
            let fits = log2_records <= 34 && longest <= 3;
            assert_eq!(
                layout.is_ok(),
                fits,
                "2^{log2_records} x {longest}: {layout:?}"
            );
        }
    }
}

/// Whatever the policy allows, what is chosen is what clients take.
#[test]
fn a_hint_that_clients_refuse_is_not_chosen() {
    let policy = LayoutPolicy {
        database_bytes: 1 << 50,
        hint_bytes: u64::MAX,
        ..LayoutPolicy::default()
    };
    let large = Layout::choose(&shape(1 << 30, 1 << 10), &LWE, &policy).unwrap_err();
    assert!(
        matches!(
            large,
            LayoutError::HintTooLarge {
                limit: MAX_MESSAGE_BYTES,
                ..
            }
        ),
        "{large}"
    );
    let free = LayoutPolicy {
        queries_per_hint: u32::MAX,
        ..policy
    };
    for (records, longest) in [(1 << 36, 1), (1 << 20, 1 << 14), (1 << 8, 1 << 20)] {
        let layout = Layout::choose(&shape(records, longest), &LWE, &free).unwrap();
        assert_eq!(layout.check_client(&LWE), Ok(()), "{layout:?}");
    }
}

/// One record of 100 MiB: its hint fits when it spans enough columns, and a query would take minutes.
#[test]
fn a_query_of_minutes_is_refused() {
    let error = choose(1, 100 << 20).unwrap_err();
    let LayoutError::TooMuchWork { products, limit } = error else {
        panic!("{error}");
    };
    assert!(products > limit && limit == MAX_KEY_WORK);
    assert!(products >= 1280 * (100 << 20), "{products}");
    let layout = Layout::from_parts(1, 100 << 20, 0, 1, 1024, &LWE).unwrap();
    assert_eq!(layout.key_work(&LWE), 1280 * 1024 * (1024 + 102_400));
    assert!(layout.hint_bytes(&LWE) <= MAX_MESSAGE_BYTES);
    assert!(matches!(
        layout.check_client(&LWE),
        Err(LayoutError::TooMuchWork { .. })
    ));
}

/// Every byte of every slot is where the documentation says.
#[test]
fn matrices_hold_every_slot() {
    let text = b"a\nbcd\n\nefghij\nk\nlm\nno\n";
    let records =
        Records::from_bytes(Path::new("a.txt"), text.to_vec(), &ReadOptions::default()).unwrap();
    let cases = [(1, 1), (2, 1), (3, 1), (7, 1), (1, 2), (1, 3), (1, 7)];
    for (r, c) in cases {
        let layout = Layout::from_parts(7, 6, 1, r, c, &LWE).unwrap();
        let matrix = ByteMatrix::build(&records, &layout).unwrap();
        assert_eq!(
            (matrix.rows() as u64, matrix.columns() as u64),
            (layout.rows(), layout.columns())
        );
        for (index, record) in records.iter().enumerate() {
            let mut slot = vec![record.len() as u8];
            slot.extend(record);
            slot.resize(7, PADDING);
            let height = matrix.rows() / r as usize;
            for (at, &byte) in slot.iter().enumerate() {
                let row = index % r as usize * height + at % height;
                let column = index / r as usize * c as usize + at / height;
                assert_eq!(
                    matrix.row(row)[column],
                    signed(byte),
                    "record {index} byte {at} of {r}, {c}"
                );
            }
        }
    }
    let other = Layout::from_parts(8, 6, 1, 1, 1, &LWE).unwrap();
    assert!(ByteMatrix::build(&records, &other).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The search near the ideal finds what trying every layout finds, within a few percent.
    #[test]
    fn search_is_near_the_best_of_all(records in 1_u64..3000, longest in 1_u64..3000, wide: bool) {
        let lwe = if wide { LweParameters::new(1152, 1600, Secret::Ternary).unwrap() } else { LWE };
        let policy = LayoutPolicy::default();
        let shape = shape(records, longest);
        let found = Layout::candidates(&shape, &lwe, &policy).unwrap();
        let best = found.iter().map(|c| c.cost).fold(f64::INFINITY, f64::min);
        let every = (1..=records).map(|r| (r, 1)).chain((1..=longest.min(1024)).map(|c| (1, c)));
        let least = every
            .filter_map(|(r, c)| Layout::from_parts(records, longest as u32, 0, r as u32, c as u32, &lwe).ok())
            .map(|l| (l.up_bytes() + l.down_bytes()) as f64 + l.hint_bytes(&lwe) as f64 / 100.0)
            .fold(f64::INFINITY, f64::min);
        prop_assert!(best <= least * 1.02, "{best} against {least}");
    }
}
