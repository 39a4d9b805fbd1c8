/*
 * What DPDK offers only as inline functions, macros or thread-local variables, as plain functions.
 * Nothing here is called once per packet on the fast path: the burst functions take a whole burst.
 */
#ifndef SLUICE_DPDK_SHIM_H
#define SLUICE_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

/* rte_errno of the calling thread. */
int shim_errno(void);
/* The calling thread's lcore id, UINT32_MAX when it has none. */
uint32_t shim_lcore_id(void);
/* The time stamp counter. */
uint64_t shim_tsc(void);

/* The CPUs that the calling thread may run on: fills at most `cap`, returns how many there are, or -errno. */
int shim_thread_cpus(uint32_t *cpus, uint32_t cap);
/* Binds the calling thread to one CPU: 0 or -errno. */
int shim_thread_pin(uint32_t cpu);

/* Sends DPDK's log lines to `sink`, on the thread that logs. 0 or -1. */
typedef void (*shim_log_sink)(uint32_t level, const char *text, size_t len);
int shim_log_to(shim_log_sink sink);

/*
 * A pool of packet buffers as rte_pktmbuf_pool_create makes it, but the buffer that was freed last is used first. NULL
 * with rte_errno set.
 */
struct rte_mempool *shim_pool_create_for_devices(const char *name, uint32_t n, uint32_t cache, uint16_t room,
						 int socket);
/*
 * The same, but in ordinary memory of this process, one buffer right after the other, in large pages where the kernel
 * has some, on the NUMA node that the calling thread runs on. Only the processor can reach it. NULL with rte_errno set.
 */
struct rte_mempool *shim_pool_create(const char *name, uint32_t n, uint32_t cache, uint16_t room, int socket);

struct shim_area {
	uintptr_t start;
	uintptr_t octets;
};
/* The memory of a pool's buffers: fills at most `cap` areas, returns how many there are. */
uint32_t shim_pool_memory(struct rte_mempool *pool, struct shim_area *areas, uint32_t cap);

struct rte_mbuf *shim_mbuf_alloc(struct rte_mempool *pool);
/* All `n` or none: 0 or -ENOENT. */
int shim_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t n);
void shim_mbuf_free(struct rte_mbuf *mbuf);
/*
 * Frees `n` packets. As rte_pktmbuf_free_bulk, but of a packet in one buffer of its own nothing is read or written
 * behind the first cache line of its structure.
 */
void shim_mbuf_free_bulk(struct rte_mbuf **mbufs, uint32_t n);

uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
/* Whether more than `packets` wait to be received: 1 or 0; -errno where the driver does not tell. */
int shim_rx_has_more_than(uint16_t port, uint16_t queue, uint16_t packets);
uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);

/* As rte_ring_create, and touches every slot: the kernel gives memory on the NUMA node of the calling thread. */
struct rte_ring *shim_ring_create(const char *name, uint32_t count, int socket, uint32_t flags);
uint32_t shim_ring_enqueue_burst(struct rte_ring *ring, struct rte_mbuf *const *mbufs, uint32_t n);
uint32_t shim_ring_dequeue_burst(struct rte_ring *ring, struct rte_mbuf **mbufs, uint32_t n);
uint32_t shim_ring_count(const struct rte_ring *ring);

struct shim_link {
	uint32_t speed_mbps; /* UINT32_MAX: unknown */
	uint8_t up;
	uint8_t full_duplex;
};
/* The link's state as the driver last knew it, without waiting: 0 or -errno. */
int shim_link_state(uint16_t port, struct shim_link *link);

/* Packets that a rule is about: by outer headers alone, or down to the inner ones of GTP-U over IPv4. */
enum shim_packets {
	SHIM_PACKETS_IPV4,
	SHIM_PACKETS_IPV6,
	SHIM_PACKETS_GTPU,
	SHIM_PACKETS_GTPU_IPV4,
	SHIM_PACKETS_GTPU_IPV6,
};
struct shim_rss_rule {
	uint32_t packets; /* enum shim_packets */
	uint32_t level; /* of the headers that are hashed: 0 the driver's choice, 1 outermost, 2 inside the tunnel */
	uint64_t types; /* RTE_ETH_RSS_* */
	const uint8_t *key;
	uint32_t key_len;
	uint32_t queue_num; /* 0: the port's own table from hash to queue */
	const uint16_t *queues;
};
/* Lets a rule spread packets. NULL when the driver refuses: then rte_errno, and the driver's words in text. */
struct rte_flow *shim_flow_spread(uint16_t port, const struct shim_rss_rule *rule, char *text, size_t cap);
int shim_flow_destroy(uint16_t port, struct rte_flow *flow);

/* Sets the table from hash to queue, size entries: 0 or -errno. */
int shim_reta_set(uint16_t port, const uint16_t *queues, uint16_t size);

struct rte_sched_port;
/*
 * A scheduler of one subport with `pipes` pipes, a power of two, of two queues each: queue 2n is the strict one of pipe n,
 * queue 2n + 1 the best-effort one. Rates are octets a second, `queue_size` is packets, a power of two. NULL with
 * rte_errno set.
 */
struct rte_sched_port *shim_sched_create(const char *name, uint32_t pipes, uint64_t port_rate, uint64_t pipe_rate,
					 uint16_t queue_size, uint32_t mtu);
/* Frees the scheduler with the packets in it. */
void shim_sched_free(struct rte_sched_port *port);
/* Takes over all `n` packets, each for its queue; those that do not fit are freed. Returns how many fit. */
uint32_t shim_sched_enqueue(struct rte_sched_port *port, struct rte_mbuf **mbufs, const uint32_t *queues, uint32_t n);
/* Gives at most `n` packets. */
uint32_t shim_sched_dequeue(struct rte_sched_port *port, struct rte_mbuf **mbufs, uint32_t n);
/*
 * What rte_red does with a packet that finds `packets` in the queue, with this number for its chance: 0 it is taken, 1 or 2
 * it is dropped, at the upper threshold or by chance; -1: the parameters are out of bounds. Not for several threads at once.
 */
int shim_sched_red(uint16_t wq_log2, uint16_t min_th, uint16_t max_th, uint16_t maxp_inv, uint32_t *avg, uint32_t *count,
		   uint32_t packets, uint32_t random);

#endif
