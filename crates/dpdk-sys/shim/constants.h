/*
 * DPDK's macros and field offsets as typed constants, for bindgen alone: a macro's type depends on its value,
 * and the way a field of rte_mbuf nests in unions depends on DPDK's version.
 */
#include <stddef.h>
#include <stdint.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#define MBUF_OFFSET(name, field) static const size_t MBUF_##name = offsetof(struct rte_mbuf, field)
MBUF_OFFSET(BUF_ADDR, buf_addr);
MBUF_OFFSET(DATA_OFF, data_off);
MBUF_OFFSET(REFCNT, refcnt);
MBUF_OFFSET(NB_SEGS, nb_segs);
MBUF_OFFSET(PORT, port);
MBUF_OFFSET(OL_FLAGS, ol_flags);
MBUF_OFFSET(PACKET_TYPE, packet_type);
MBUF_OFFSET(PKT_LEN, pkt_len);
MBUF_OFFSET(DATA_LEN, data_len);
MBUF_OFFSET(VLAN_TCI, vlan_tci);
MBUF_OFFSET(HASH_RSS, hash.rss);
MBUF_OFFSET(BUF_LEN, buf_len);
MBUF_OFFSET(NEXT, next);
MBUF_OFFSET(TX_OFFLOAD, tx_offload);

/* As this compiler lays them out, what the bindings of any bindgen must agree with. */
#define SIZE(type) static const size_t SHIM_SIZE_##type = sizeof(struct rte_##type)
#define OFFSET(name, type, field) static const size_t SHIM_AT_##name = offsetof(struct rte_##type, field)
SIZE(eth_conf);
SIZE(eth_dev_info);
SIZE(eth_stats);
SIZE(ether_addr);
OFFSET(rx_mode, eth_conf, rxmode.mq_mode);
OFFSET(rx_mtu, eth_conf, rxmode.mtu);
OFFSET(rx_offloads, eth_conf, rxmode.offloads);
OFFSET(tx_offloads, eth_conf, txmode.offloads);
OFFSET(rss, eth_conf, rx_adv_conf.rss_conf);
OFFSET(driver_name, eth_dev_info, driver_name);
OFFSET(max_mtu, eth_dev_info, max_mtu);
OFFSET(max_rx_queues, eth_dev_info, max_rx_queues);
OFFSET(rx_capa, eth_dev_info, rx_offload_capa);
OFFSET(tx_capa, eth_dev_info, tx_offload_capa);
OFFSET(reta_size, eth_dev_info, reta_size);
OFFSET(rss_offloads, eth_dev_info, flow_type_rss_offloads);
OFFSET(segments, eth_dev_info, tx_desc_lim.nb_mtu_seg_max);
OFFSET(oerrors, eth_stats, oerrors);
OFFSET(rx_nombuf, eth_stats, rx_nombuf);

static const uint16_t MBUF_HEADROOM = RTE_PKTMBUF_HEADROOM;
static const uint32_t MEMPOOL_CACHE_MAX = RTE_MEMPOOL_CACHE_MAX_SIZE;

#define U64(name) static const uint64_t SHIM_##name = RTE_##name
U64(MBUF_F_RX_VLAN);
U64(MBUF_F_RX_VLAN_STRIPPED);
U64(MBUF_F_RX_RSS_HASH);
U64(MBUF_F_RX_IP_CKSUM_MASK);
U64(MBUF_F_RX_IP_CKSUM_BAD);
U64(MBUF_F_RX_IP_CKSUM_GOOD);
U64(MBUF_F_RX_L4_CKSUM_MASK);
U64(MBUF_F_RX_L4_CKSUM_BAD);
U64(MBUF_F_RX_L4_CKSUM_GOOD);
U64(MBUF_F_RX_LRO);
U64(MBUF_F_TX_IP_CKSUM);
U64(MBUF_F_TX_IPV4);
U64(MBUF_F_TX_IPV6);
U64(MBUF_F_TX_UDP_CKSUM);
U64(MBUF_F_TX_TCP_CKSUM);

U64(ETH_RX_OFFLOAD_IPV4_CKSUM);
U64(ETH_RX_OFFLOAD_UDP_CKSUM);
U64(ETH_RX_OFFLOAD_TCP_CKSUM);
U64(ETH_RX_OFFLOAD_SCATTER);
U64(ETH_RX_OFFLOAD_RSS_HASH);
U64(ETH_TX_OFFLOAD_IPV4_CKSUM);
U64(ETH_TX_OFFLOAD_UDP_CKSUM);
U64(ETH_TX_OFFLOAD_TCP_CKSUM);
U64(ETH_TX_OFFLOAD_MULTI_SEGS);

U64(ETH_RSS_IPV4);
U64(ETH_RSS_FRAG_IPV4);
U64(ETH_RSS_NONFRAG_IPV4_OTHER);
U64(ETH_RSS_IPV6);
U64(ETH_RSS_FRAG_IPV6);
U64(ETH_RSS_NONFRAG_IPV6_OTHER);
U64(ETH_RSS_NONFRAG_IPV4_UDP);
U64(ETH_RSS_NONFRAG_IPV6_UDP);
U64(ETH_RSS_NONFRAG_IPV4_TCP);
U64(ETH_RSS_NONFRAG_IPV6_TCP);
U64(ETH_RSS_GTPU);
/* The upper half: bindgen does not read the highest bit of 64. */
static const uint32_t SHIM_ETH_RSS_L3_SRC_ONLY_HIGH = RTE_ETH_RSS_L3_SRC_ONLY >> 32;
U64(ETH_RSS_L3_DST_ONLY);
U64(ETH_RSS_L3_PRE64);
U64(ETH_RSS_LEVEL_OUTERMOST);
U64(ETH_RSS_LEVEL_INNERMOST);

#define U32(name) static const uint32_t SHIM_##name = RTE_##name
U32(ETH_NAME_MAX_LEN);
U32(ETH_MQ_RX_RSS);
static const uint32_t SHIM_RING_F_SP_ENQ = RING_F_SP_ENQ;
static const uint32_t SHIM_RING_F_SC_DEQ = RING_F_SC_DEQ;
static const uint32_t SHIM_RING_F_EXACT_SZ = RING_F_EXACT_SZ;
