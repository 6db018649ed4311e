use super::*;

fn meta() -> Meta {
    Meta {
        flags: 7,
        expires_at: 900,
        version: Version(0xfedc_ba98_7654_3210),
        last_access: 50_000_000,
        frequency: 2,
        fetched: true,
        stale: false,
        win_sent: true,
    }
}

/// Writes an item and reads it back.
fn round_trip(meta: Meta, key: &[u8], value: &[u8], high: u32) -> (usize, Meta) {
    let layout = Layout::of(&meta, key.len(), value.len(), high);
    let mut data = vec![0xaa; layout.size()];
    let (left, right) = value.split_at(value.len() / 3);
    layout.write(&mut data, &meta, key, [left, right]);
    let read = Layout::read(&data);
    assert_eq!(read, layout);
    assert_eq!((read.key(&data), read.value(&data)), (key, value));
    (layout.size(), read.meta(&data, high, meta.last_access + 10))
}

#[test]
fn every_combination_of_extra_words_reads_back() {
    let full = meta();
    for bits in 0..32 {
        let meta = Meta {
            flags: if bits & 1 > 0 { full.flags } else { 0 },
            expires_at: if bits & 2 > 0 { full.expires_at } else { NEVER },
            stale: bits & 4 > 0,
            ..full
        };
        let high = if bits & 8 > 0 {
            version_high(meta.version)
        } else {
            1
        };
        let value = vec![b'v'; if bits & 16 > 0 { 40_000 } else { 100 }];
        assert_eq!(round_trip(meta, b"a key", &value, high).1, meta);
    }
}

#[test]
fn a_plain_small_item_has_twelve_bytes_besides_key_and_value() {
    let meta = Meta {
        version: Version(5),
        ..Meta::default()
    };
    assert_eq!(round_trip(meta, &[b'k'; 10], &[b'v'; 20], 0).0, 42);
}

#[test]
fn value_lengths_around_the_extended_form_read_back() {
    for len in [0, 0x3ffe, 0x3fff, 0x4000, 0x8000] {
        round_trip(meta(), &[b'k'; 250], &vec![1; len], 0);
    }
}

#[test]
fn a_noted_read_is_a_use_and_an_access() {
    for frequency in 0..=FREQUENCY_MAX {
        for fetched in [false, true] {
            let before = Meta {
                frequency,
                fetched,
                ..meta()
            };
            let layout = Layout::of(&before, 3, 5, 0);
            let mut data = vec![0; layout.size()];
            layout.write(&mut data, &before, b"key", [b"value", b""]);
            let mut stepwise = data.clone();
            bump_frequency(&mut stepwise, layout);
            touch_access(&mut stepwise, 60_000_000);
            let after = note_read(&mut data, layout, 60_000_000);
            assert_eq!(data, stepwise);
            assert_eq!(after, Layout::read(&data));
        }
    }
}

#[test]
fn what_has_no_word_cannot_be_set_in_place() {
    let plain = Meta {
        version: Version(5),
        ..Meta::default()
    };
    let layout = Layout::of(&plain, 1, 1, 0);
    let mut data = vec![0; layout.size()];
    layout.write(&mut data, &plain, b"k", [b"v", b""]);
    assert!(!set_expires_at(&mut data, 9));
    assert!(set_expires_at(&mut data, NEVER));
    assert!(!set_version(&mut data, Version(1 << 40), 0));
    assert!(set_version(&mut data, Version((1 << 40) - 1), 0));
    assert_eq!(
        Layout::read(&data).version(&data, 0),
        Version((1 << 40) - 1)
    );
}
