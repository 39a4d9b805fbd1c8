//! Parts of a run, with sizes and durations.

use super::clock::available_memory;
use super::model::{Model, SIZES_SMALL, SIZES_UPLINK};
use super::selffed::Effort;

/// The parts of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// T12.
    Memory,
    /// T7, and memory of sessions with control's tables.
    Pfcp,
    /// The floors and bare forwarding.
    Floors,
    /// T1, T2, T3, and the sweeps.
    Throughput,
    /// T5, and the cost of the stages' accounting.
    Qos,
    /// T4.
    Setup,
    /// T11.
    Scaling,
    /// T8.
    Latency,
    /// T14.
    Overload,
}

impl Part {
    /// All, in the order in which they are measured: memory first, before any is used.
    pub const ALL: [Self; 9] = [
        Self::Memory,
        Self::Pfcp,
        Self::Floors,
        Self::Throughput,
        Self::Qos,
        Self::Setup,
        Self::Scaling,
        Self::Latency,
        Self::Overload,
    ];
}

/// A profile of model V with one of its frame sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileSize {
    /// 1 to 6.
    pub profile: u8,
    /// Index in the profile's sizes.
    pub size: usize,
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Small tables and short runs.
    pub quick: bool,
    /// The parts.
    pub parts: Vec<Part>,
    /// For the points that targets are about.
    pub effort: Effort,
    /// For the points of sweeps.
    pub sweep: Effort,
    /// Seconds for each floor.
    pub floor_seconds: f64,
    /// Seconds of each trial with two cores.
    pub trial_seconds: f64,
}

impl Plan {
    /// Everything, or a quick look at everything.
    #[must_use]
    pub fn new(quick: bool, parts: &[Part], seconds: Option<f64>) -> Self {
        let effort = |runs, usual: f64| Effort {
            runs,
            seconds: seconds.unwrap_or(usual),
        };
        let parts = if parts.is_empty() {
            Part::ALL.to_vec()
        } else {
            parts.to_vec()
        };
        if quick {
            Self {
                quick,
                parts,
                effort: effort(3, 0.6),
                sweep: effort(3, 0.2),
                floor_seconds: 0.4,
                trial_seconds: 0.25,
            }
        } else {
            Self {
                quick,
                parts,
                effort: effort(5, 10.0),
                sweep: effort(3, 2.0),
                floor_seconds: 5.0,
                trial_seconds: seconds.unwrap_or(5.0),
            }
        }
    }

    /// Whether a part is measured.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// The model of T1, at 256 octets; smaller in a quick look.
    #[must_use]
    pub fn t1(&self) -> Option<Model> {
        let model = Model::v(2, 1)?;
        Some(if self.quick {
            model.with_flows(1 << 20)
        } else {
            model
        })
    }

    /// That of T2: twice as many flows.
    #[must_use]
    pub fn t2(&self) -> Option<Model> {
        let t1 = self.t1()?;
        Some(t1.with_flows(t1.flows() * 2))
    }

    /// Numbers of flows besides those of T1 and T2.
    #[must_use]
    pub fn flow_counts(&self) -> &'static [u32] {
        if self.quick {
            &[10_240, 131_072]
        } else {
            &[10_240, 102_400, 1_048_576, 4_194_304]
        }
    }

    /// Numbers of sessions, with an entry for each tunnel.
    #[must_use]
    pub fn session_counts(&self) -> &'static [u32] {
        if self.quick {
            &[1, 100]
        } else {
            &[1, 100, 1_000, 100_000, 600_000]
        }
    }

    /// Model V's profiles and sizes: all, or the sizes of profile 2.
    #[must_use]
    pub fn profiles(&self) -> Vec<ProfileSize> {
        let profiles = if self.quick { 2..=2 } else { 1..=6 };
        profiles
            .flat_map(|profile: u8| {
                let sizes = if profile <= 3 {
                    SIZES_SMALL.len()
                } else {
                    SIZES_UPLINK.len()
                };
                (0..sizes).map(move |size| ProfileSize { profile, size })
            })
            .collect()
    }

    /// The models that are measured with QER and URR and without.
    #[must_use]
    pub fn policies(&self) -> Vec<Model> {
        if self.quick {
            vec![Model::i().with_sessions(5_000)]
        } else {
            vec![Model::i(), Model::s()]
        }
    }
}

/// Octets of memory that a world of `model` may take, generously.
#[must_use]
pub fn estimate(model: &Model) -> u64 {
    let session = 3_000 + 1_200 * u64::from(model.pdrs());
    u64::from(model.entries()) * 100 + u64::from(model.sessions) * session + (64 << 20)
}

/// Whether there is memory for a model.
///
/// # Errors
/// Text with the memory that is needed and that is available.
pub fn fits(model: &Model) -> Result<(), String> {
    let (needed, there) = (estimate(model), available_memory());
    if needed * 10 / 9 > there {
        Err(format!(
            "{} flows of {} sessions need some {} MiB of memory, there are {}",
            model.entries(),
            model.sessions,
            needed >> 20,
            there >> 20
        ))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_plan_has_every_profile_and_size_of_model_v() {
        let plan = Plan::new(false, &[], None);
        assert_eq!(plan.profiles().len(), 3 * 6 + 3 * 5);
        assert!(
            plan.profiles()
                .iter()
                .all(|of| Model::v(of.profile, of.size).is_some())
        );
        assert_eq!(plan.t1().map(|model| model.flows()), Some(8_388_608));
        assert_eq!(plan.t2().map(|model| model.flows()), Some(16_777_216));
        assert!(Part::ALL.iter().all(|&part| plan.has(part)));
        assert!(!Plan::new(true, &[Part::Setup], None).has(Part::Latency));
    }
}
