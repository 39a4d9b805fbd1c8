#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

int shim_errno(void)
{
	return rte_errno;
}

uint32_t shim_lcore_id(void)
{
	return rte_lcore_id();
}

uint64_t shim_tsc(void)
{
	return rte_rdtsc();
}

int shim_thread_cpus(uint32_t *cpus, uint32_t cap)
{
	cpu_set_t set;
	uint32_t n = 0;
	int rc = pthread_getaffinity_np(pthread_self(), sizeof(set), &set);

	if (rc != 0)
		return -rc;
	for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		if (n < cap)
			cpus[n] = cpu;
		n++;
	}
	return (int)n;
}

int shim_thread_pin(uint32_t cpu)
{
	cpu_set_t set;

	if (cpu >= CPU_SETSIZE)
		return -EINVAL;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return -pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static shim_log_sink log_sink;

static ssize_t log_write(void *cookie, const char *text, size_t len)
{
	int level = rte_log_cur_msg_loglevel();

	(void)cookie;
	log_sink(level < 0 ? RTE_LOG_INFO : (uint32_t)level, text, len);
	return (ssize_t)len;
}

int shim_log_to(shim_log_sink sink)
{
	cookie_io_functions_t io = {.write = log_write};
	FILE *stream = fopencookie(NULL, "w", io);

	if (stream == NULL)
		return -1;
	log_sink = sink;
	/* Unbuffered: each line reaches the sink on the thread that logs it. */
	setvbuf(stream, NULL, _IONBF, 0);
	return rte_openlog_stream(stream);
}

#define LARGE_PAGE ((size_t)2 << 20)

/*
 * Zeroed memory, aligned to a large page, between inaccessible addresses: what the kernel reports of this mapping is of
 * this memory alone. NULL when there is none.
 */
static void *large_map(size_t len)
{
	uint8_t *start = mmap(NULL, len + 2 * LARGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start == MAP_FAILED)
		return NULL;
	start = RTE_PTR_ALIGN_CEIL(start + 1, LARGE_PAGE);
	if (mprotect(start, len, PROT_READ | PROT_WRITE) != 0)
		return NULL;
	/* Without large pages it is only slower. */
	(void)madvise(start, len, MADV_HUGEPAGE);
	return start;
}

/*
 * How free buffers are kept: last in, first out, so that a buffer that is used again is still in the caches. DPDK's
 * default is a ring, which uses all buffers of a pool in turn. Hardware that keeps buffers itself does so.
 */
static const char *pool_ops(void)
{
	const char *best = rte_mbuf_best_mempool_ops();

	return strcmp(best, "ring_mp_mc") == 0 ? "stack" : best;
}

/* Gives an empty pool its buffers: 0 or -errno. */
static int pool_fill(struct rte_mempool *pool, uint16_t room)
{
	struct rte_pktmbuf_pool_private private = {.mbuf_data_room_size = room};
	struct rte_mempool_objsz sizes;
	size_t len = (size_t)rte_mempool_calc_obj_size(pool->elt_size, pool->flags, &sizes) * pool->size;
	void *start;
	int rc = rte_mempool_set_ops_byname(pool, pool_ops(), NULL);

	if (rc != 0)
		return rc;
	rte_pktmbuf_pool_init(pool, &private);
	len = RTE_ALIGN_CEIL(len, LARGE_PAGE);
	start = large_map(len);
	if (start == NULL)
		return -ENOMEM;
	/* The memory is never given back: a pool lives as long as the process. */
	rc = rte_mempool_populate_virt(pool, start, len, (size_t)sysconf(_SC_PAGESIZE), NULL, NULL);
	if (rc < 0)
		return rc;
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool->populated_size == pool->size ? 0 : -ENOMEM;
}

struct rte_mempool *shim_pool_create(const char *name, uint32_t n, uint32_t cache, uint16_t room, int socket)
{
	uint32_t size = sizeof(struct rte_mbuf) + room;
	struct rte_mempool *pool = rte_mempool_create_empty(name, n, size, cache, sizeof(struct rte_pktmbuf_pool_private),
							    socket, RTE_MEMPOOL_F_NO_IOVA_CONTIG);
	int rc;

	if (pool == NULL)
		return NULL;
	rc = pool_fill(pool, room);
	if (rc == 0)
		return pool;
	rte_mempool_free(pool);
	rte_errno = -rc;
	return NULL;
}

struct rte_mempool *shim_pool_create_for_devices(const char *name, uint32_t n, uint32_t cache, uint16_t room,
						 int socket)
{
	return rte_pktmbuf_pool_create_by_ops(name, n, cache, 0, room, socket, pool_ops());
}

uint32_t shim_pool_memory(struct rte_mempool *pool, struct shim_area *areas, uint32_t cap)
{
	struct rte_mempool_memhdr *memory;
	uint32_t count = 0;

	STAILQ_FOREACH(memory, &pool->mem_list, next) {
		if (count < cap)
			areas[count] = (struct shim_area){.start = (size_t)memory->addr, .octets = memory->len};
		count++;
	}
	return count;
}

struct rte_mbuf *shim_mbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int shim_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t n)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, n);
}

void shim_mbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

void shim_mbuf_free_bulk(struct rte_mbuf **mbufs, uint32_t n)
{
	struct rte_mempool *pool = NULL;
	uint32_t first = 0, i;

	/* Buffers of one pool that follow each other are put back with one call. */
	for (i = 0; i < n; i++) {
		struct rte_mbuf *mbuf = mbufs[i];
		/* Such a buffer is as the pool wants it: no other refers to it, and nothing is chained to it. */
		bool plain = mbuf->nb_segs == 1 && rte_mbuf_refcnt_read(mbuf) == 1 && RTE_MBUF_DIRECT(mbuf);

		if (plain && mbuf->pool == pool)
			continue;
		if (i > first)
			rte_mempool_put_bulk(pool, (void *const *)&mbufs[first], i - first);
		if (plain) {
			pool = mbuf->pool;
			first = i;
		} else {
			rte_pktmbuf_free(mbuf);
			pool = NULL;
			first = i + 1;
		}
	}
	if (n > first)
		rte_mempool_put_bulk(pool, (void *const *)&mbufs[first], n - first);
}

/* Where another core wrote packets, all are on their way before the first one is read. */
static void prefetch_packets(struct rte_mbuf *const *mbufs, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		rte_prefetch0(mbufs[i]);
		rte_prefetch0(RTE_PTR_ADD(mbufs[i], sizeof(struct rte_mbuf) + RTE_PKTMBUF_HEADROOM));
	}
}

uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	uint16_t received = rte_eth_rx_burst(port, queue, mbufs, n);

	prefetch_packets(mbufs, received);
	return received;
}

int shim_rx_has_more_than(uint16_t port, uint16_t queue, uint16_t packets)
{
	int status = rte_eth_rx_descriptor_status(port, queue, packets);

	return status < 0 ? status : status == RTE_ETH_RX_DESC_DONE;
}

uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, mbufs, n);
}

struct rte_ring *shim_ring_create(const char *name, uint32_t count, int socket, uint32_t flags)
{
	struct rte_ring *ring = rte_ring_create(name, count, socket, flags);

	if (ring != NULL)
		memset(&ring[1], 0, ring->size * sizeof(void *));
	return ring;
}

uint32_t shim_ring_enqueue_burst(struct rte_ring *ring, struct rte_mbuf *const *mbufs, uint32_t n)
{
	return rte_ring_enqueue_burst(ring, (void *const *)mbufs, n, NULL);
}

uint32_t shim_ring_dequeue_burst(struct rte_ring *ring, struct rte_mbuf **mbufs, uint32_t n)
{
	uint32_t dequeued = rte_ring_dequeue_burst(ring, (void **)mbufs, n, NULL);

	prefetch_packets(mbufs, dequeued);
	return dequeued;
}

uint32_t shim_ring_count(const struct rte_ring *ring)
{
	return rte_ring_count(ring);
}

int shim_link_state(uint16_t port, struct shim_link *out)
{
	struct rte_eth_link link;
	int rc = rte_eth_link_get_nowait(port, &link);

	if (rc != 0)
		return rc;
	out->speed_mbps = link.link_speed;
	out->up = link.link_status == RTE_ETH_LINK_UP;
	out->full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	return 0;
}

#define ITEMS_MAX 7

/* The headers that a packet must have for the rule, outermost first. */
static void flow_pattern(uint32_t packets, struct rte_flow_item *items)
{
	int is_tunnel = packets >= SHIM_PACKETS_GTPU;
	enum rte_flow_item_type outer =
		packets == SHIM_PACKETS_IPV6 ? RTE_FLOW_ITEM_TYPE_IPV6 : RTE_FLOW_ITEM_TYPE_IPV4;

	(items++)->type = RTE_FLOW_ITEM_TYPE_ETH;
	(items++)->type = outer;
	if (is_tunnel) {
		(items++)->type = RTE_FLOW_ITEM_TYPE_UDP;
		(items++)->type = RTE_FLOW_ITEM_TYPE_GTPU;
	}
	if (packets == SHIM_PACKETS_GTPU_IPV4)
		(items++)->type = RTE_FLOW_ITEM_TYPE_IPV4;
	if (packets == SHIM_PACKETS_GTPU_IPV6)
		(items++)->type = RTE_FLOW_ITEM_TYPE_IPV6;
	items->type = RTE_FLOW_ITEM_TYPE_END;
}

struct rte_flow *shim_flow_spread(uint16_t port, const struct shim_rss_rule *rule, char *text, size_t cap)
{
	const struct rte_flow_attr attr = {.ingress = 1};
	const struct rte_flow_action_rss rss = {
		.func = RTE_ETH_HASH_FUNCTION_DEFAULT,
		.level = rule->level,
		.types = rule->types,
		.key_len = rule->key_len,
		.key = rule->key,
		.queue_num = rule->queue_num,
		.queue = rule->queues,
	};
	const struct rte_flow_action actions[] = {
		{.type = RTE_FLOW_ACTION_TYPE_RSS, .conf = &rss},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	struct rte_flow_item items[ITEMS_MAX] = {0};
	struct rte_flow_error error = {0};
	struct rte_flow *flow = NULL;
	int rc;

	flow_pattern(rule->packets, items);
	rc = rte_flow_validate(port, &attr, items, actions, &error);
	if (rc == 0)
		flow = rte_flow_create(port, &attr, items, actions, &error);
	else
		rte_errno = -rc;
	if (flow == NULL && cap > 0)
		snprintf(text, cap, "%s", error.message == NULL ? "" : error.message);
	return flow;
}

int shim_flow_destroy(uint16_t port, struct rte_flow *flow)
{
	return rte_flow_destroy(port, flow, NULL);
}

#define RETA_MAX 4096

int shim_reta_set(uint16_t port, const uint16_t *queues, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 table[RETA_MAX / RTE_ETH_RETA_GROUP_SIZE] = {0};

	if (size > RETA_MAX)
		return -EINVAL;
	for (uint16_t i = 0; i < size; i++) {
		table[i / RTE_ETH_RETA_GROUP_SIZE].mask |= RTE_BIT64(i % RTE_ETH_RETA_GROUP_SIZE);
		table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] = queues[i];
	}
	return rte_eth_dev_rss_reta_update(port, table, size);
}
