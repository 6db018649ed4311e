//! What is advised, case by case.

use super::*;
use evenkeel_testkit::seed;

#[test]
fn five_rows_say_what_each_would_be() {
    let inputs = mediawiki();
    let advice = advice(&question(Architecture::Sds, &inputs), &inputs);
    let shown: Vec<String> = advice
        .rows
        .iter()
        .map(|row| {
            let value = |of: Option<Estimate>| of.expect("there is a central server").value;
            format!(
                "{} {:.2} {:.1} {:.0} {:.2} {:?}",
                row.architecture,
                value(row.latency_ms),
                value(row.page_ms),
                value(row.central_bytes),
                value(row.space),
                row.measured_ms.map(|ms| (100.0 * ms).round()),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "sdc 3.50 58.4 870 1.00 None",
            "sds 4.10 68.5 696 1.00 Some(410.0)",
            "sdr 6.72 112.2 861 0.50 None",
            "snoop 4.73 79.0 429 0.69 None",
            "dir 8.00 133.6 338 0.90 None",
        ]
    );
    assert_eq!(advice.choice, Some(Architecture::Sdc));
    assert_eq!(
        advice.reason,
        "sdc in place of sds makes the mean latency smaller by 14.6 %"
    );
}

#[test]
fn sessions_are_kept_in_their_own_rack() {
    let mut inputs = mediawiki();
    inputs.usage.ps = 1.0;
    let mut question = question(Architecture::Sdc, &inputs);
    let by_latency = advice(&question, &inputs);
    assert_eq!(by_latency.choice, Some(Architecture::Snoop));
    assert_eq!(
        by_latency.reason,
        "snoop in place of sdc makes the mean latency smaller by 5.4 %"
    );
    question.objective = Objective::Network;
    assert_eq!(advice(&question, &inputs).choice, Some(Architecture::Dir));
    question.objective = Objective::Space;
    assert_eq!(advice(&question, &inputs).choice, None);
    question.objective = Objective::Mixed;
    assert_eq!(
        advice(&question, &inputs).reason,
        "dir in place of sdc makes the product of latency, network and space smaller by 85.1 %"
    );
}

#[test]
fn small_gains_and_intervals_that_overlap_are_no_reason() {
    let inputs = mediawiki();
    let ask = question(Architecture::Sds, &inputs);
    // Base decides how near both are to each other: s − l2 is 0.6 ms.
    let with_base = |base: f64| Inputs {
        distances: Network { base, ..NETWORK }.into(),
        ..inputs
    };
    let far = with_base(20.0);
    let small = advice(&question(Architecture::Sds, &far), &far);
    assert_eq!(small.choice, None);
    assert_eq!(
        small.reason,
        "no change: sdc would make the mean latency smaller by 2.7 %, which is less than 5 %"
    );

    let sure: Vec<Inputs> = (0..100)
        .map(|n| with_base(1.45 + 0.001 * f64::from(n)))
        .collect();
    let advice = advise(&ask, &inputs, &sure).unwrap();
    assert_eq!(advice.choice, Some(Architecture::Sdc));
    let unsure: Vec<Inputs> = (0..100)
        .map(|n| with_base(1.0 + 0.01 * f64::from(n)))
        .collect();
    let advice = advise(&ask, &inputs, &unsure).unwrap();
    assert_eq!(advice.choice, None);
    assert_eq!(
        advice.reason,
        "no change: sdc would make the mean latency smaller by 14.6 %, and the intervals overlap"
    );
}

#[test]
fn a_model_that_does_not_know_today_is_not_believed_about_latency() {
    let inputs = mediawiki();
    let mut question = question(Architecture::Sds, &inputs);
    question.today.latency_ms = 5.0;
    let off = advice(&question, &inputs);
    assert_eq!(off.choice, None);
    assert_eq!(
        off.reason,
        "no change: for sds the model says 4.10 ms and 5.00 ms were measured, so advice on latency would be no better than that"
    );
    question.today.latency_ms = 4.5;
    assert_eq!(advice(&question, &inputs).choice, Some(Architecture::Sdc));
    question.today = Today {
        architecture: Architecture::Sdc,
        latency_ms: 5.0,
    };
    question.objective = Objective::Network;
    assert_eq!(advice(&question, &inputs).choice, Some(Architecture::Dir));
}

#[test]
fn without_central_servers_one_row_is_empty() {
    let mut inputs = mediawiki();
    inputs.distances = Distances {
        own: 5.0,
        central: None,
        other: 40.0,
    };
    let advice = advice(&question(Architecture::Sds, &inputs), &inputs);
    let row = advice.rows[0];
    assert_eq!((row.latency_ms, row.page_ms), (None, None));
    assert_eq!((row.central_bytes, row.space), (None, None));
    assert!(advice.rows[1..].iter().all(|row| row.latency_ms.is_some()));
    assert_eq!(advice.choice, Some(Architecture::Snoop));
    let switch = &advice.turnings[1];
    assert_eq!(switch.number, Number::Switch);
    // With 12.5 ms the own rack is at no distance.
    assert_eq!((switch.now, switch.low), (17.5, 12.5));
}

#[test]
fn advice_survives_json() {
    let inputs = mediawiki();
    let advice = advice(&question(Architecture::Sds, &inputs), &inputs);
    let text = serde_json::to_string(&advice).unwrap();
    let again: Advice = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (again.choice, &again.reason),
        (advice.choice, &advice.reason)
    );
    assert_eq!((again.rows.len(), again.turnings.len()), (5, 3));
    assert!(text.contains(r#""choice":"sdc""#), "{text}");
}

/// Changes that make something impossible, and what is said of them.
#[test]
fn what_is_impossible_is_refused_in_words() {
    type Change = fn(&mut Question, &mut Inputs);
    let changes: [(Change, &str); 16] = [
        (
            |_, inputs| inputs.usage.ps = f64::NAN,
            "ps is NaN, which is not between 0 and 1",
        ),
        (
            |_, inputs| inputs.usage.ps = 1.5,
            "ps is 1.5, which is not between 0 and 1",
        ),
        (
            |_, inputs| inputs.usage.rw_net = -0.1,
            "rw_net is -0.1, which is not between 0 and 1",
        ),
        (
            |_, inputs| inputs.usage.shares[0] = 0.25,
            "the shares of the commands add up to 1.01 and not to 1",
        ),
        (
            |_, inputs| inputs.usage.shares = [0.0; 21],
            "the shares of the commands add up to 0 and not to 1",
        ),
        (
            |_, inputs| inputs.usage.shares[0] = f64::INFINITY,
            "the share of a command is inf, which is not between 0 and 1",
        ),
        (
            |_, inputs| inputs.usage.object_bytes = 0.0,
            "the size of a request is 0, which is not between 1 and 1073741824",
        ),
        (
            |_, inputs| inputs.usage.message_bytes = -1.0,
            "the size of a message is -1, which is not between 0 and 1073741824",
        ),
        (
            |_, inputs| inputs.distances.own = f64::NEG_INFINITY,
            "the distance within a rack is -inf, which is not between 0 and 600000",
        ),
        (
            |_, inputs| inputs.distances.other = 1e9,
            "the distance to another rack is 1000000000, which is not between 0 and 600000",
        ),
        (
            |question, _| question.racks.racks = 0,
            "0 racks: advice is for 2 to 64",
        ),
        (
            |question, _| question.racks.racks = 1_000_000,
            "1000000 racks: advice is for 2 to 64",
        ),
        (
            |question, _| question.racks.copies = 0,
            "0 copies of an item in 5 racks: 1 to 5 are possible",
        ),
        (
            |question, _| question.today.latency_ms = f64::NAN,
            "the latency that was measured is NaN, which is not between 0 and 600000",
        ),
        (
            |question, _| question.requests_per_page = -3.0,
            "the number of commands of a page is -3, which is not between 0 and 1000000",
        ),
        (
            |_, inputs| inputs.distances.central = None,
            "the servers are said to be central, and the distance to a central one is not known",
        ),
    ];
    for (change, words) in changes {
        let mut inputs = mediawiki();
        let mut question = question(Architecture::Sdc, &inputs);
        change(&mut question, &mut inputs);
        assert_eq!(
            advise(&question, &inputs, &[]).unwrap_err().to_string(),
            words
        );
    }

    let whole = mediawiki();
    let mut sample = whole;
    sample.distances.central = None;
    let question = question(Architecture::Sds, &whole);
    assert_eq!(
        advise(&question, &whole, &[whole, sample]),
        Err(Bad::Samples)
    );
    sample = whole;
    sample.usage.ps = -1.0;
    assert!(advise(&question, &whole, &[sample]).is_err());
}

/// Whatever numbers there are, there is an error or advice of numbers alone.
#[test]
fn no_number_causes_a_panic() {
    let seed = seed(0x39);
    let mut chance = Chance(SplitMix64::new(seed));
    let odd = [
        f64::NAN,
        f64::INFINITY,
        -1.0,
        -0.0,
        0.0,
        1e-300,
        0.5,
        1.0,
        2.0,
        1e5,
        1e308,
    ];
    let (mut refused, mut advised) = (0, 0);
    for _ in 0..2_000 {
        let mut inputs = mediawiki();
        let mut question = question(chance.one_of(&Architecture::ALL), &inputs);
        question.objective = chance.one_of(&Objective::ALL);
        question.racks = Racks {
            racks: chance.one_of(&[0, 1, 2, 5, 64, 65, u32::MAX]),
            copies: chance.one_of(&[0, 1, 2, 64, u32::MAX]),
        };
        for _ in 0..2 {
            let value = chance.one_of(&odd);
            *chance.one_of_mut([
                &mut inputs.usage.ps,
                &mut inputs.usage.rw_net,
                &mut inputs.usage.object_bytes,
                &mut inputs.usage.message_bytes,
                &mut inputs.usage.shares[3],
                &mut inputs.distances.own,
                &mut inputs.distances.other,
                &mut question.today.latency_ms,
                &mut question.requests_per_page,
            ]) = value;
        }
        match advise(&question, &inputs, &[inputs]) {
            Err(_) => refused += 1,
            Ok(advice) => {
                advised += 1;
                for row in advice.rows {
                    let estimates = [row.latency_ms, row.page_ms, row.central_bytes, row.space];
                    for estimate in estimates.into_iter().flatten() {
                        assert!(
                            estimate.value.is_finite(),
                            "{question:?} {inputs:?} {row:?}"
                        );
                    }
                }
            }
        }
    }
    assert!(refused > 500 && advised > 50, "{refused} {advised}");
}
