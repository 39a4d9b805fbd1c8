/* DPDK's scheduler, for benchmarks: a file of its own, so that what does not use it is not linked with it. */
#include <string.h>

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_red.h>
#include <rte_sched.h>

#include "shim.h"

/* Traffic classes that have a queue: one with strict priority, and the best-effort one. */
#define SCHED_STRICT 0
#define SCHED_BEST RTE_SCHED_TRAFFIC_CLASS_BE

struct rte_sched_port *shim_sched_create(const char *name, uint32_t pipes, uint64_t port_rate, uint64_t pipe_rate,
					 uint16_t queue_size, uint32_t mtu)
{
	struct rte_sched_pipe_params pipe = {
		.tb_rate = pipe_rate,
		.tb_size = 2 * (uint64_t)mtu,
		.tc_period = 40,
		.tc_ov_weight = 1,
		.wrr_weights = {1, 1, 1, 1},
	};
	struct rte_sched_subport_profile_params profile = {
		.tb_rate = port_rate,
		.tb_size = 1000000,
		.tc_period = 10,
	};
	struct rte_sched_subport_params subport = {
		.n_pipes_per_subport_enabled = pipes,
		.pipe_profiles = &pipe,
		.n_pipe_profiles = 1,
		.n_max_pipe_profiles = 1,
	};
	struct rte_sched_port_params params = {
		.name = name,
		.socket = 0,
		.rate = port_rate,
		.mtu = mtu,
		.frame_overhead = 0,
		.n_subports_per_port = 1,
		.subport_profiles = &profile,
		.n_subport_profiles = 1,
		.n_max_subport_profiles = 1,
		.n_pipes_per_subport = pipes,
	};
	struct rte_sched_port *port;
	uint32_t i;

	subport.qsize[SCHED_STRICT] = queue_size;
	subport.qsize[SCHED_BEST] = queue_size;
	pipe.tc_rate[SCHED_STRICT] = pipe_rate;
	pipe.tc_rate[SCHED_BEST] = pipe_rate;
	for (i = 0; i < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; i++)
		profile.tc_rate[i] = port_rate;
	port = rte_sched_port_config(&params);
	if (port == NULL)
		return NULL;
	rte_errno = -rte_sched_subport_config(port, 0, &subport, 0);
	for (i = 0; rte_errno == 0 && i < pipes; i++)
		rte_errno = -rte_sched_pipe_config(port, 0, i, 0);
	if (rte_errno != 0) {
		rte_sched_port_free(port);
		return NULL;
	}
	return port;
}

void shim_sched_free(struct rte_sched_port *port)
{
	rte_sched_port_free(port);
}

uint32_t shim_sched_enqueue(struct rte_sched_port *port, struct rte_mbuf **mbufs, const uint32_t *queues, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		rte_sched_port_pkt_write(port, mbufs[i], 0, queues[i] / 2, queues[i] % 2 ? SCHED_BEST : SCHED_STRICT, 0,
					 RTE_COLOR_GREEN);
	return rte_sched_port_enqueue(port, mbufs, n);
}

uint32_t shim_sched_dequeue(struct rte_sched_port *port, struct rte_mbuf **mbufs, uint32_t n)
{
	return rte_sched_port_dequeue(port, mbufs, n);
}

int shim_sched_red(uint16_t wq_log2, uint16_t min_th, uint16_t max_th, uint16_t maxp_inv, uint32_t *avg, uint32_t *count,
		   uint32_t packets, uint32_t random)
{
	struct rte_red_config config;
	struct rte_red red = {.avg = *avg, .count = *count};
	int result;

	if (rte_red_config_init(&config, wq_log2, min_th, max_th, maxp_inv))
		return -1;
	rte_red_rand_val = random;
	result = rte_red_enqueue(&config, &red, packets, 0);
	*avg = red.avg;
	*count = red.count;
	return result;
}
