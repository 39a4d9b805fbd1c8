//! How many records a second one thread makes durable: `cargo run --release -p records --example rate -- DIRECTORY`.

use records::{Directory, Entry, SNssai, Seid, Settings, Spool, Subject, Usage, Volumes};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const RECORDS: u64 = 2_000_000;

fn main() -> std::io::Result<()> {
    let path = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("spool"), PathBuf::from);
    let (mut spool, _) = Spool::open(Directory::open(&path)?, Settings::default(), Duration::ZERO, 0)?;
    let mut entry = usage();
    let start = Instant::now();
    for number in 0..RECORDS {
        if let Entry::Usage(usage) = &mut entry {
            usage.subject.seid = Seid(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            usage.volumes = Volumes::new([number * 1_000, number * 9_000], [number, number * 7]);
        }
        let seq = spool.next();
        spool.put(start.elapsed(), seq, &entry);
        if !spool.has_room() {
            spool.poll(start.elapsed());
        }
    }
    let is_written = spool.close(start.elapsed());
    let seconds = start.elapsed().as_secs_f64();
    let progress = spool.progress();
    println!(
        "{} records of {} octets in {seconds:.2} s: {:.0} records/s, {} fdatasync, {} files{}",
        progress.written,
        progress.octets / progress.written.max(1),
        progress.written as f64 / seconds,
        progress.syncs,
        progress.files,
        if is_written { "" } else { "; not all were written" }
    );
    Ok(())
}

fn usage() -> Entry {
    Entry::Usage(Box::new(Usage {
        subject: Subject {
            node: "upf-1.5gc.example".into(),
            smf: Some("smf-1.5gc.example".into()),
            cp_seid: Seid(7),
            cp_ipv4: Some([10, 100, 0, 2].into()),
            imsi: Some("001010123456789".into()),
            msisdn: Some("491700000001".into()),
            dnn: Some("internet".into()),
            s_nssai: Some(SNssai {
                sst: 1,
                sd: Some("00000a".into()),
            }),
            ue: vec!["10.45.0.2".into(), "2001:db8:45::/64".into()],
            instances: vec!["access".into(), "internet".into()],
            ..Subject::default()
        },
        urr: 1,
        ur_seqn: 3,
        triggers: vec!["VOLTH".into()],
        volumes: Volumes::default(),
        start_ms: 1_700_000_000_000,
        end_ms: 1_700_000_010_500,
        duration_s: Some(10),
        first_packet_ms: None,
        last_packet_ms: None,
    }))
}
