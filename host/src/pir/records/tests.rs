use super::rows::text;
use super::*;
use std::io::Write as _;

fn parse(name: &str, data: &[u8], options: &ReadOptions) -> Result<Records, RecordError> {
    Records::from_bytes(Path::new(name), data.to_vec(), options)
}

fn all(records: &Records) -> Vec<&[u8]> {
    records.iter().collect()
}

fn keyed(column: &str) -> ReadOptions {
    ReadOptions {
        keys: KeyColumn::Named(column.to_owned()),
        ..ReadOptions::default()
    }
}

fn sized(bytes: usize) -> ReadOptions {
    ReadOptions {
        record_bytes: Some(bytes),
        ..ReadOptions::default()
    }
}

#[test]
fn lines_keep_their_bytes_and_lose_their_ends() {
    let records = parse(
        "a.txt",
        b"one\r\n\ntwo \xff\r\nthree",
        &ReadOptions::default(),
    )
    .unwrap();
    assert_eq!(all(&records), [&b"one"[..], b"", b"two \xff", b"three"]);
    assert_eq!(
        (records.len(), records.longest(), records.total_bytes()),
        (4, 5, 13)
    );
    assert_eq!(records.get(4), None);
    assert!(!records.of_one_length());
    // A last line end is no empty record; one lone empty line is a record.
    assert_eq!(
        parse("a.txt", b"x\n", &ReadOptions::default())
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        all(&parse("a.txt", b"\n", &ReadOptions::default()).unwrap()),
        [b""]
    );
}

#[test]
fn csv_rows_are_the_bytes_of_the_file() {
    let data = b"id,name\r\n1,\"a,\"\"b\"\r\n\r\n\n2,\"two\nlines\"\n3,c";
    let records = parse("a.csv", data, &keyed("id")).unwrap();
    assert_eq!(
        all(&records),
        [&b"1,\"a,\"\"b\""[..], b"2,\"two\nlines\"", b"3,c"]
    );
    assert_eq!(
        records.keys().unwrap().collect::<Vec<_>>(),
        [b"1", b"2", b"3"]
    );
    assert_eq!(records.key_column(), Some("id"));
    let by_name = parse("a.csv", data, &keyed("name")).unwrap();
    assert_eq!(
        by_name.keys().unwrap().collect::<Vec<_>>(),
        [&b"a,\"b"[..], b"two\nlines", b"c"]
    );
    let without = parse("a.csv", data, &ReadOptions::default()).unwrap();
    assert!(without.keys().is_none() && without.key_column().is_none());
}

#[test]
fn a_byte_order_mark_belongs_to_no_column() {
    let records = parse("a.csv", b"\xef\xbb\xbfid,name\n1,a\n", &keyed("id")).unwrap();
    assert_eq!(all(&records), [b"1,a"]);
}

#[test]
fn tsv_splits_at_tabs() {
    let records = parse("a.tsv", b"id\tname\n7\ta,b\n", &keyed("name")).unwrap();
    assert_eq!(records.keys().unwrap().collect::<Vec<_>>(), [b"a,b"]);
}

#[test]
fn rows_split_at_the_delimiter_of_choice() {
    let semicolons = ReadOptions {
        delimiter: ";".parse().ok(),
        ..keyed("name")
    };
    // A delimiter alone means CSV where the name says nothing.
    for name in ["a.csv", "a.tsv", "a"] {
        let records = parse(name, b"id;name\n1;\"a;b\"\n2;c,d\n", &semicolons).unwrap();
        assert_eq!(all(&records), [&b"1;\"a;b\""[..], b"2;c,d"]);
        let keys: Vec<_> = records.keys().unwrap().collect();
        assert_eq!(keys, [&b"a;b"[..], b"c,d"]);
        assert_eq!(records.likely_delimiter(), Likely(None));
    }
    let one_column = parse("a.csv", b"id;name\n1;a\n", &ReadOptions::default()).unwrap();
    assert_eq!(one_column.likely_delimiter().0, ";".parse().ok());
}

#[test]
fn binary_splits_at_the_size() {
    let records = parse("a.bin", b"abcdef", &sized(2)).unwrap();
    assert_eq!(all(&records), [b"ab", b"cd", b"ef"]);
    assert!(records.of_one_length());
    assert_eq!(records.get(usize::MAX), None);
    // A size alone means binary where the name says nothing.
    assert_eq!(parse("a", b"abcdef", &sized(3)).unwrap().len(), 2);
}

#[test]
fn the_format_can_be_overridden() {
    let lines = ReadOptions {
        format: Some(FileFormat::Lines),
        ..ReadOptions::default()
    };
    assert_eq!(parse("a.csv", b"id\n1\n", &lines).unwrap().len(), 2);
    assert_eq!("tsv".parse(), Ok(FileFormat::Tsv));
    let error = "xml".parse::<FileFormat>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown record format \"xml\": use one of lines, csv, tsv, binary"
    );
}

/// One line of text for each way a file can be wrong, naming the file, the line and the remedy.
#[test]
fn bad_files_are_refused_in_one_line() {
    let plain = ReadOptions::default();
    let long = ReadOptions {
        limits: RecordLimits {
            record_bytes: 3,
            ..RecordLimits::default()
        },
        ..plain.clone()
    };
    let few = ReadOptions {
        limits: RecordLimits {
            records: 2,
            ..RecordLimits::default()
        },
        ..plain.clone()
    };
    let short_keys = ReadOptions {
        limits: RecordLimits {
            key_bytes: 2,
            ..RecordLimits::default()
        },
        ..keyed("id")
    };
    let small = ReadOptions {
        limits: RecordLimits {
            file_bytes: 3,
            ..RecordLimits::default()
        },
        ..plain.clone()
    };
    let cases: &[(&str, &[u8], &ReadOptions, &str)] = &[
        ("a.txt", b"", &plain, "a.txt holds no records: it is empty"),
        (
            "a.csv",
            b"id,name\n",
            &plain,
            "a.csv holds no records: it has a header line and no rows",
        ),
        (
            "a.txt",
            b"ab\r\nabc\r\nabcd\r\n",
            &long,
            "a.txt line 3: the record is 4 bytes long and 3 are allowed: shorten or split it",
        ),
        (
            "a.txt",
            b"1\n2\n3\n",
            &few,
            "a.txt holds more than 2 records: split it",
        ),
        (
            "a.txt",
            b"1234",
            &small,
            "a.txt is larger than the limit of 3 bytes: split it",
        ),
        (
            "a.xml",
            b"1",
            &plain,
            "cannot tell the format of a.xml from its name: say --format lines, csv, tsv or binary",
        ),
        (
            "a.bin",
            b"1",
            &plain,
            "a.bin is read as binary: say the size of its records with --record-bytes",
        ),
        (
            "a.csv",
            b"1",
            &sized(1),
            "--record-bytes goes with binary files, and a.csv is read as csv",
        ),
        (
            "a.bin",
            b"1",
            &sized(0),
            "a record size of 0 bytes is not possible: use 1 to 1048576",
        ),
        (
            "a.bin",
            b"1",
            &sized(1048577),
            "a record size of 1048577 bytes is not possible: use 1 to 1048576",
        ),
        (
            "a.bin",
            b"12345",
            &sized(2),
            "a.bin has 5 bytes, which is no multiple of the record size 2",
        ),
        (
            "a.txt",
            b"1",
            &keyed("id"),
            "a.txt is read as lines, which has no key column: look records up by index",
        ),
        (
            "a.csv",
            b"id,name\n1,2\n",
            &keyed("key"),
            "a.csv has no column \"key\": it has id, name",
        ),
        (
            "a.csv",
            b"id;name\n1;2,5\n",
            &plain,
            "a.csv line 2: the row has 2 fields and the header 1; the file looks separated by ';': try --delimiter ';'",
        ),
        (
            "a.csv",
            b"id\tname\n1\t2\n",
            &keyed("id"),
            "a.csv has no column \"id\": it has id\u{fffd}name; the file looks separated by tab: try --delimiter tab",
        ),
        (
            "a.bin",
            b"1",
            &ReadOptions {
                delimiter: Some(Delimiter::TAB),
                ..sized(1)
            },
            "--delimiter goes with --format csv or tsv, and a.bin is read as binary",
        ),
        (
            "a.csv",
            b"id,id\n1,2\n",
            &keyed("id"),
            "a.csv has more than one column \"id\": rename one in its first line",
        ),
        (
            "a.csv",
            b"id,name\n1,2\n3\n",
            &plain,
            "a.csv line 3: the row has 1 fields and the header 2",
        ),
        (
            "a.csv",
            b"id,name\n1,2\n\n,3\n",
            &keyed("id"),
            "a.csv line 4: the key column \"id\" is empty: every row needs a key",
        ),
        (
            "a.csv",
            b"id,name\nabc,2\n",
            &short_keys,
            "a.csv line 2: the key is 3 bytes long and 2 are allowed",
        ),
        (
            "a.csv",
            b"id,name\n1,2\n\n2,\"x\ny\"\n1,4\n",
            &keyed("id"),
            "a.csv line 6: the key \"1\" is that of line 2 too: choose a column without repetitions",
        ),
    ];
    for (name, data, options, expected) in cases {
        let error = parse(name, data, options).expect_err(expected);
        assert_eq!(error.to_string(), *expected);
    }
}

#[test]
fn a_record_at_the_limit_passes_and_one_byte_more_does_not() {
    let limit = RecordLimits::default().record_bytes;
    for name in ["a.txt", "a.csv"] {
        for (length, fits) in [(limit - 1, true), (limit, true), (limit + 1, false)] {
            let mut data = b"header\n".to_vec();
            data.extend(std::iter::repeat_n(b'x', length));
            match parse(name, &data, &ReadOptions::default()) {
                Ok(records) => assert!(fits && records.longest() == length),
                Err(RecordError::TooLong { line: 2, bytes, .. }) => {
                    assert!(!fits && bytes == length);
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    let data = vec![0; 2 * limit + 2];
    assert_eq!(parse("a.bin", &data[2..], &sized(limit)).unwrap().len(), 2);
    assert!(matches!(
        parse("a.bin", &data, &sized(limit + 1)),
        Err(RecordError::RecordBytes { .. })
    ));
}

#[test]
fn files_are_read_and_missing_ones_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    let error = Records::read(&path, &ReadOptions::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with(&format!("cannot read {}: ", path.display())),
        "{error}"
    );
    File::create(&path)
        .unwrap()
        .write_all(b"one\ntwo\n")
        .unwrap();
    assert_eq!(
        Records::read(&path, &ReadOptions::default()).unwrap().len(),
        2
    );
    let lines = ReadOptions {
        format: Some(FileFormat::Lines),
        ..ReadOptions::default()
    };
    assert!(matches!(
        Records::read(folder.path(), &lines),
        Err(RecordError::Folder { .. })
    ));
    let small = ReadOptions {
        limits: RecordLimits {
            file_bytes: 7,
            ..RecordLimits::default()
        },
        ..lines
    };
    assert!(matches!(
        Records::read(&path, &small),
        Err(RecordError::FileTooLarge { limit: 7, .. })
    ));
}

#[test]
fn text_of_a_message_is_one_short_line() {
    assert_eq!(text(b"a\nb"), "a\u{fffd}b");
    assert_eq!(text(&[b'x'; 200]).chars().count(), 81);
}

proptest::proptest! {
    /// Whatever the bytes, reading ends with records that lie in the file or with one line.
    #[test]
    fn any_bytes_are_read_or_refused(data: Vec<u8>, name in "[ab]\\.(txt|csv|tsv|bin)", size in 1_usize..5) {
        let options = ReadOptions {
            record_bytes: name.ends_with("bin").then_some(size),
            keys: if name.ends_with("sv") { KeyColumn::First } else { KeyColumn::None },
            ..ReadOptions::default()
        };
        match parse(&name, &data, &options) {
            Ok(records) => {
                proptest::prop_assert!(!records.is_empty());
                proptest::prop_assert_eq!(records.iter().count(), records.len());
                proptest::prop_assert!(records.total_bytes() <= data.len() as u64);
            }
            Err(error) => proptest::prop_assert_eq!(error.to_string().lines().count(), 1),
        }
    }
}
