/*
 * Answers for DPDK's rte_acl: which rule of a list a packet matches, and how long that takes.
 *
 *   rte_acl [EAL-OPTION...] < QUESTIONS
 *
 * Input, one item a line, of one IP version:
 *
 *   4|6 RULES PACKETS
 *   RULES times:   ID PRIORITY PROTOCOL|-1 SOURCE/BITS DESTINATION/BITS SOURCE-PORTS DESTINATION-PORTS
 *   PACKETS times: PROTOCOL SOURCE DESTINATION SOURCE-PORT DESTINATION-PORT
 *   as often as wanted: match | time BATCH DISTINCT
 *
 * Ports of a rule are the first and the last. IDs are at least 1; several rules may have one. Of the rules that a packet
 * matches the one with the highest priority counts. Output: nanoseconds and octets of the table once it is built; to
 * `match` the ID for each packet, 0 for none; to `time` nanoseconds a packet, of as many lookups as there are packets,
 * BATCH to a call, over the first DISTINCT packets.
 */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_acl.h>
#include <rte_eal.h>
#include <rte_malloc.h>

#define WORDS 4
#define MOST_FIELDS (1 + 2 * WORDS + 2)

/* What rte_acl reads of a packet, in network order. It reads one octet first, then four at a time. */
struct key {
	uint8_t protocol;
	uint8_t reserved[3];
	uint32_t source[WORDS];
	uint32_t destination[WORDS];
	uint16_t source_port;
	uint16_t destination_port;
};

RTE_ACL_RULE_DEF(rule, MOST_FIELDS);

struct questions {
	int family;
	unsigned words;
	uint32_t packet_count;
	struct key *packets;
	const uint8_t **order;
	uint32_t *results;
	struct rte_acl_ctx *table;
};

static void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void address(const struct questions *asked, const char *text, uint32_t *words)
{
	if (inet_pton(asked->family, text, words) != 1)
		fail("%s: no address", text);
}

/* Fields of a rule and of a key have the same order. */
static void define(const struct questions *asked, struct rte_acl_config *config)
{
	struct rte_acl_field_def *field = config->defs;
	unsigned word;

	*field++ = (struct rte_acl_field_def){
		.type = RTE_ACL_FIELD_TYPE_BITMASK, .size = 1, .offset = offsetof(struct key, protocol)};
	for (word = 0; word < 2 * asked->words; word++) {
		unsigned place = word % asked->words;
		size_t offset = word < asked->words ? offsetof(struct key, source[place])
						    : offsetof(struct key, destination[place]);

		*field++ = (struct rte_acl_field_def){
			.type = RTE_ACL_FIELD_TYPE_MASK, .size = 4, .input_index = 1 + word, .offset = offset};
	}
	*field++ = (struct rte_acl_field_def){.type = RTE_ACL_FIELD_TYPE_RANGE, .size = 2,
		.input_index = 1 + word, .offset = offsetof(struct key, source_port)};
	*field++ = (struct rte_acl_field_def){.type = RTE_ACL_FIELD_TYPE_RANGE, .size = 2,
		.input_index = 1 + word, .offset = offsetof(struct key, destination_port)};
	config->num_fields = field - config->defs;
	config->num_categories = 1;
	for (word = 0; word < config->num_fields; word++)
		config->defs[word].field_index = word;
}

static struct rte_acl_field *prefix(const struct questions *asked, struct rte_acl_field *field, const char *text,
				    unsigned bits)
{
	uint32_t words[WORDS];

	address(asked, text, words);
	for (unsigned word = 0; word < asked->words; word++, field++) {
		unsigned own = bits > 32 * word ? bits - 32 * word : 0;

		field->value.u32 = ntohl(words[word]);
		field->mask_range.u32 = own < 32 ? own : 32;
	}
	return field;
}

static void read_rule(const struct questions *asked)
{
	struct rule rule = {.data = {.category_mask = 1}};
	struct rte_acl_field *field = rule.field;
	char source[64], destination[64];
	unsigned source_bits, destination_bits;
	uint16_t ports[4];
	int protocol;

	if (scanf("%u %d %d %63[^/]/%u %63[^/]/%u %hu %hu %hu %hu", &rule.data.userdata, &rule.data.priority, &protocol,
		  source, &source_bits, destination, &destination_bits, &ports[0], &ports[1], &ports[2], &ports[3]) != 11)
		fail("a rule was expected");
	field->value.u8 = protocol < 0 ? 0 : protocol;
	field->mask_range.u8 = protocol < 0 ? 0 : 0xff;
	field = prefix(asked, field + 1, source, source_bits);
	field = prefix(asked, field, destination, destination_bits);
	for (unsigned end = 0; end < 2; end++, field++) {
		field->value.u16 = ports[2 * end];
		field->mask_range.u16 = ports[2 * end + 1];
	}
	if (rte_acl_add_rules(asked->table, (struct rte_acl_rule *)&rule, 1) != 0)
		fail("rte_acl takes no rule %u", rule.data.userdata);
}

static void read_packet(const struct questions *asked, struct key *key)
{
	char source[64], destination[64];
	uint16_t ports[2];

	if (scanf("%hhu %63s %63s %hu %hu", &key->protocol, source, destination, &ports[0], &ports[1]) != 5)
		fail("a packet was expected");
	address(asked, source, key->source);
	address(asked, destination, key->destination);
	key->source_port = htons(ports[0]);
	key->destination_port = htons(ports[1]);
}

static size_t allocated(void)
{
	struct rte_malloc_socket_stats stats = {0};

	rte_malloc_get_socket_stats(0, &stats);
	return stats.heap_allocsz_bytes;
}

static void build(const struct questions *asked)
{
	struct rte_acl_config config = {0};
	size_t before = allocated();
	double begin = now_ns();

	define(asked, &config);
	if (rte_acl_build(asked->table, &config) != 0)
		fail("rte_acl builds no table of these rules");
	printf("%.0f %zu\n", now_ns() - begin, allocated() - before);
}

static void read_all(struct questions *asked)
{
	uint32_t rules, version;
	struct rte_acl_param parameters = {.name = "rules", .rule_size = RTE_ACL_RULE_SZ(MOST_FIELDS)};

	if (scanf("%u %u %u", &version, &rules, &asked->packet_count) != 3)
		fail("the IP version and two numbers were expected");
	asked->family = version == 4 ? AF_INET : AF_INET6;
	asked->words = version == 4 ? 1 : WORDS;
	parameters.max_rule_num = rules;
	asked->table = rte_acl_create(&parameters);
	asked->packets = aligned_alloc(64, RTE_ALIGN(sizeof(struct key) * asked->packet_count, 64));
	asked->order = calloc(asked->packet_count, sizeof(*asked->order));
	asked->results = calloc(asked->packet_count, sizeof(*asked->results));
	if (!asked->table || !asked->packets || !asked->order || !asked->results)
		fail("no memory");
	while (rules-- > 0)
		read_rule(asked);
	for (uint32_t packet = 0; packet < asked->packet_count; packet++)
		read_packet(asked, &asked->packets[packet]);
}

/* Looks all packets up, or the first `distinct` of them as often; returns the nanoseconds of one. */
static double classify(const struct questions *asked, uint32_t batch, uint32_t distinct)
{
	double begin;

	for (uint32_t packet = 0; packet < asked->packet_count; packet++)
		asked->order[packet] = (const uint8_t *)&asked->packets[packet % distinct];
	begin = now_ns();
	for (uint32_t packet = 0; packet < asked->packet_count; packet += batch) {
		uint32_t count = RTE_MIN(batch, asked->packet_count - packet);

		if (rte_acl_classify(asked->table, &asked->order[packet], &asked->results[packet], count, 1) != 0)
			fail("rte_acl does not classify");
	}
	return (now_ns() - begin) / asked->packet_count;
}

int main(int argc, char **argv)
{
	struct questions asked = {0};
	char question[16];
	uint32_t batch, distinct;

	if (rte_eal_init(argc, argv) < 0)
		fail("DPDK does not start");
	read_all(&asked);
	build(&asked);
	while (fflush(stdout) == 0 && scanf("%15s", question) == 1) {
		if (strcmp(question, "match") == 0) {
			classify(&asked, 32, asked.packet_count);
			for (uint32_t packet = 0; packet < asked.packet_count; packet++)
				printf("%u\n", asked.results[packet]);
		} else if (strcmp(question, "time") == 0 && scanf("%u %u", &batch, &distinct) == 2) {
			printf("%.2f\n", classify(&asked, batch, distinct));
		} else {
			fail("%s: no question", question);
		}
	}
	return 0;
}
