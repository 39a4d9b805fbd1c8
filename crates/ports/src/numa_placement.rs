//! On which NUMA node a worker's memory belongs: that of the core its thread is pinned to.
//!
//! Each worker makes its tables on its own pinned thread, and its pool of packet buffers and its inbox are made by a
//! thread on the same core: the kernel gives memory on the node of the thread that touches it first. This needs no
//! privilege, where `set_mempolicy(2)` and `mbind(2)` are denied in most containers. Where the kernel reports no nodes,
//! or workers are pinned to no cores, the kernel places everything by itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use dpdk::{Eal, Mempool, PoolConfig};
use tracing::warn;

use config::WorkersConfig;

/// The NUMA node of each core, as far as the kernel reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaTopology(BTreeMap<u32, u16>);

impl NumaTopology {
    /// That of this machine.
    #[must_use]
    pub fn read() -> Self {
        Self::read_from(Path::new("/sys/devices/system/cpu"))
    }

    /// From a folder as `/sys/devices/system/cpu`, in which `cpuN/nodeM` says that core N is on node M.
    #[must_use]
    pub fn read_from(folder: &Path) -> Self {
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok())
        };
        let number = |name: &str, prefix: &str| name.strip_prefix(prefix)?.parse::<u32>().ok();
        let cores = names(folder).filter_map(|name| {
            let core = number(&name, "cpu")?;
            let node = names(&folder.join(&name)).find_map(|name| number(&name, "node"))?;
            Some((core, u16::try_from(node).ok()?))
        });
        Self(cores.collect())
    }

    /// The node of a core.
    #[must_use]
    pub fn node_of(&self, core: u32) -> Option<u16> {
        self.0.get(&core).copied()
    }
}

/// Where a worker and its memory belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaPlacement {
    /// The core that its thread is pinned to; `None`: any.
    pub core: Option<u32>,
    /// The node of its tables, its pool and its inbox; `None`: any.
    pub node: Option<u16>,
}

impl NumaPlacement {
    /// Of each worker, in the order of their ids.
    #[must_use]
    pub fn of_workers(workers: &WorkersConfig, topology: &NumaTopology) -> Vec<Self> {
        let placement = |worker: usize| {
            let core = workers.cores.get(worker).map(|core| core.value() as u32);
            Self::of_core(core, topology)
        };
        (0..workers.count.size()).map(placement).collect()
    }

    /// Of a thread on this core.
    #[must_use]
    pub fn of_core(core: Option<u32>, topology: &NumaTopology) -> Self {
        let node = core.and_then(|core| topology.node_of(core));
        Self { core, node }
    }

    /// Makes something here, by a thread on the core, with the node given to DPDK for what it takes from huge pages.
    /// Where that is not possible, a warning is logged, and it is made anywhere.
    ///
    /// # Errors
    /// DPDK's, when it cannot be made anywhere.
    pub fn make<T: Send>(
        &self,
        what: &str,
        make: impl Fn(Option<u16>) -> Result<T, dpdk::Error> + Sync,
    ) -> Result<T, dpdk::Error> {
        let error = match dpdk::on_cpu(self.core, || make(self.node)) {
            Ok(Ok(made)) => return Ok(made),
            Ok(Err(error)) | Err(error) => error,
        };
        if *self == Self::default() {
            return Err(error);
        }
        warn!(core = self.core, node = self.node, "{what} not placed: {error}");
        make(None)
    }
}

/// The pools of packet buffers, one for each worker, with as many as `buffers` says of it.
///
/// # Errors
/// DPDK's, when there is no memory for one.
pub fn pools(eal: &Eal, placements: &[NumaPlacement], buffers: &[u32]) -> Result<Vec<Mempool>, dpdk::Error> {
    let pool = |(placement, buffers): (&NumaPlacement, &u32)| {
        let shape = pool_shape(*buffers, placements.len() as u32);
        placement.make("packet buffers", |socket| {
            Mempool::new(eal, PoolConfig { socket, ..shape })
        })
    };
    placements.iter().zip(buffers).map(pool).collect()
}

/// The shape of the pool with this many buffers of one of a number of workers. Each worker, and the thread of the
/// host's packets, keeps free buffers of every pool; together at most half of a pool.
fn pool_shape(buffers: u32, workers: u32) -> PoolConfig {
    let shape = PoolConfig::with_buffers(buffers);
    // A cache flushes at 1.5 times its size.
    let most = shape.buffers / (3 * (workers + 1));
    PoolConfig {
        cache: shape.cache.min(most),
        ..shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes of four cores each; the second half of each core's threads follows, as Linux numbers them.
    fn two_nodes() -> NumaTopology {
        let cores = (0..16).map(|core| (core, (core / 4 % 2) as u16));
        NumaTopology(cores.collect())
    }

    #[test]
    fn memory_is_on_the_node_of_the_workers_core() {
        let placements = |workers| {
            let workers: WorkersConfig = serde_saphyr::from_str(workers).expect("a configuration");
            NumaPlacement::of_workers(&workers, &two_nodes())
        };
        let at = |core, node| NumaPlacement {
            core: Some(core),
            node: Some(node),
        };
        assert_eq!(
            placements("{count: 4, cores: [1, 5, 9, 14]}"),
            [at(1, 0), at(5, 1), at(9, 0), at(14, 1)]
        );
        assert_eq!(
            placements("{count: 2}"),
            [NumaPlacement::default(); 2],
            "not pinned"
        );
        let unknown = NumaPlacement {
            core: Some(40),
            node: None,
        };
        assert_eq!(placements("{count: 1, cores: [40]}"), [unknown]);
    }

    #[test]
    fn a_topology_is_read_from_the_kernels_folder() {
        let folder = std::env::temp_dir().join(format!("sluice-numa-{}", std::process::id()));
        for name in [
            "cpu0/node0",
            "cpu1/node0",
            "cpu7/node1",
            "cpu9/topology",
            "cpufreq",
            "cpuidle",
        ] {
            fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        let topology = NumaTopology::read_from(&folder);
        assert_eq!(
            [0, 1, 7, 9, 12].map(|core| topology.node_of(core)),
            [Some(0), Some(0), Some(1), None, None]
        );
        assert_eq!(
            NumaTopology::read_from(&folder.join("none")),
            NumaTopology::default()
        );
        fs::remove_dir_all(&folder).expect("the folder");
    }

    fn refusal() -> dpdk::Error {
        dpdk::pin_current_thread(5_000).expect_err("no machine has that many cores")
    }

    #[test]
    fn what_cannot_be_made_on_its_node_is_made_anywhere() {
        let placement = NumaPlacement {
            core: None,
            node: Some(1),
        };
        let refused = |node: Option<u16>| match node {
            Some(_) => Err(refusal()),
            None => Ok(7),
        };
        assert_eq!(placement.make("memory", refused).ok(), Some(7));
        let absent = NumaPlacement {
            core: Some(5_000),
            node: None,
        };
        assert_eq!(absent.make("memory", refused).ok(), Some(7));
        let fails = |_| Err::<(), _>(refusal());
        assert!(NumaPlacement::default().make("memory", fails).is_err());
    }

    #[test]
    fn caches_leave_half_of_a_pool() {
        assert_eq!(pool_shape(32_768, 1), PoolConfig::with_buffers(32_768));
        for (buffers, workers) in [(16_384, 2), (32, 64), (14_286, 7), (24_576, 2)] {
            let shape = pool_shape(buffers, workers);
            assert_eq!(shape.buffers, buffers);
            assert!(
                (workers + 1) * shape.cache * 3 / 2 <= shape.buffers / 2 + 1,
                "{shape:?}"
            );
        }
    }
}
