/* What says that it is nDPI, with the functions that the plug-in asks for: each build of it by its own macros. */
#include <stdint.h>
#include <stdlib.h>

#ifndef API
#define API 8668
#endif
#ifndef REVISION
#define REVISION "4.2.0"
#endif
#ifndef FLOW
#define FLOW 688
#endif
#ifndef TCP
#define TCP 136
#endif
#ifndef UDP
#define UDP 88
#endif
#ifndef PROTOCOLS
#define PROTOCOLS 3
#endif

struct protocol {
    uint16_t master, app;
    uint32_t category;
};

uint16_t ndpi_get_api_version(void) { return API; }
const char *ndpi_revision(void) { return REVISION; }
uint32_t ndpi_detection_get_sizeof_ndpi_flow_struct(void) { return FLOW; }
uint32_t ndpi_detection_get_sizeof_ndpi_flow_tcp_struct(void) { return TCP; }
uint32_t ndpi_detection_get_sizeof_ndpi_flow_udp_struct(void) { return UDP; }
void set_ndpi_malloc(void *(*function)(size_t)) { (void)function; }
void set_ndpi_free(void (*function)(void *)) { (void)function; }
void *ndpi_init_detection_module(uint32_t preferences) {
    static int module;
    (void)preferences;
#ifdef POOR
    return NULL;
#else
    return &module;
#endif
}
void ndpi_set_protocol_detection_bitmask2(void *module, const void *protocols) { (void)module, (void)protocols; }
void ndpi_finalize_initialization(void *module) { (void)module; }
void ndpi_exit_detection_module(void *module) { (void)module; }
unsigned ndpi_get_num_supported_protocols(void *module) { return (void)module, PROTOCOLS; }
const char *ndpi_get_proto_name(void *module, uint16_t number) {
    static const char *names[] = {"Unknown", "First", "Second"};
    return (void)module, number < 3 ? names[number] : NULL;
}
struct protocol ndpi_detection_process_packet(void *module, void *flow, const unsigned char *packet, unsigned short len,
                                              uint64_t now) {
    struct protocol none = {0, 0, 0};
    return (void)module, (void)flow, (void)packet, (void)len, (void)now, none;
}
#ifndef PARTIAL
void ndpi_free_flow_data(void *flow) { (void)flow; }
#endif
