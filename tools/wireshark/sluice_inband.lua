-- Dissects the in-band protocol of Sluice (docs/inband.md): control frames (EtherType 0x88B5) with the messages in them,
-- and exception frames (0x88B6), of which the inner frame is given to Wireshark's own dissector.
--
--     wireshark -X lua_script:tools/wireshark/sluice_inband.lua
--
-- It shows what is there, and says where octets are missing or too many. It checks no MAC and no bounds.

local control = Proto("sluice_control", "Sluice in-band control frame")
local exception = Proto("sluice_exception", "Sluice in-band exception frame")

local KINDS = { [1] = "HELLO", [2] = "WELCOME", [3] = "CONFIRM", [4] = "DATA", [5] = "ACK" }
local ROLES = { [0] = "host", [1] = "accelerator" }
local TYPES = {
    [0x10] = "Install", [0x11] = "Update", [0x12] = "Put", [0x13] = "Remove", [0x14] = "Query", [0x15] = "Fence",
    [0x20] = "Done", [0x21] = "Counts (reply)", [0x22] = "Meter", [0x23] = "Contents", [0x24] = "Demand",
    [0x25] = "Refused", [0x26] = "Tokens", [0x30] = "Aged", [0x31] = "Watermark", [0x32] = "Limit", [0x33] = "Counts (event)",
    [0x34] = "Miss", [0x35] = "BackendReset", [0x36] = "Unreachable", [0x37] = "Links", [0x40] = "Capabilities",
    [0x41] = "HostCapabilities",
}
local OBJECTS = {
    [0] = "none", [1] = "flow", [2] = "forward", [3] = "QER", [4] = "meter", [5] = "counter", [6] = "share",
    [7] = "flows of the session", [8] = "contents", [9] = "session", [10] = "generation", [11] = "queues",
    [16] = "instance",
    [17] = "route", [18] = "adjacency", [19] = "path MTU", [20] = "shared meter", [21] = "shared chain",
    [22] = "queue class", [23] = "shared node",
}
local DIRECTIONS = { [0] = "uplink", [1] = "downlink" }
local FORWARDS = {
    [0] = "drop", [1] = "buffer", [2] = "tunnel", [3] = "plain", [4] = "punt", [5] = "unchanged", [6] = "redirect",
}
local METERS = { [0] = "single", [1] = "srTCM", [2] = "trTCM", [3] = "packets", [4] = "shared" }
local UNITS = { [0] = "minute", [1] = "six minutes", [2] = "hour", [3] = "day", [4] = "week" }
local LIMITS = { [0] = "event", [1] = "trap", [2] = "drop" }
local TOO_LONG = { [0] = "fragment inner", [1] = "fragment outer", [2] = "trap" }
local TARGETS = { [0] = "link", [1] = "router", [2] = "paths", [3] = "host" }
local MANAGEMENTS = { [0] = "tail drop", [1] = "CoDel", [2] = "dual queue", [3] = "WRED" }
local REFUSALS = {
    [0] = "unsupported", [1] = "full", [2] = "exists", [3] = "missing", [4] = "in use", [5] = "stale",
    [6] = "other epoch",
}
local FRAMES = {
    [1] = "Exception", [2] = "Marker", [3] = "Questions", [4] = "Steered", [0x81] = "Send", [0x82] = "Through",
    [0x83] = "Marker back", [0x84] = "Answers",
}
local ANSWERS = { [0] = "whole", [1] = "by flow" }
local CLASSES = { [0] = "urgent", [1] = "high", [2] = "normal" }
local REASONS = {
    [0] = "no flow", [1] = "stale", [2] = "not a user packet", [3] = "action", [4] = "limit", [5] = "adjacency",
    [6] = "too long", [7] = "TTL", [8] = "needs reassembly", [9] = "other headers", [10] = "no session",
}

-- All fields, by name: those of exception frames, too, which have flows as messages do.
local fields = {}
local function dec(bits, name, text, values)
    fields[name] = ProtoField["uint" .. bits]("sluice." .. name, text, base.DEC, values)
end
local function hex(bits, name, text)
    fields[name] = ProtoField["uint" .. bits]("sluice." .. name, text, base.HEX)
end

dec(8, "version", "Version")
dec(8, "kind", "Kind of frame", KINDS)
dec(8, "channel", "Channel")
dec(8, "role", "Role of the sender", ROLES)
dec(32, "handshake", "Handshake")
hex(64, "boot", "Boot")
dec(64, "sequence", "Sequence")
dec(64, "acknowledged", "Acknowledged")
hex(64, "bitmap", "Bitmap")
dec(16, "length", "Length of the payload")
fields.mac = ProtoField.bytes("sluice.mac", "MAC")
fields.nonce = ProtoField.bytes("sluice.nonce", "Nonce")
fields.peer_nonce = ProtoField.bytes("sluice.peer_nonce", "Nonce of the peer")
hex(64, "peer_boot", "Boot of the peer")
dec(64, "clock", "Clock")
dec(64, "echoed_clock", "Echoed clock")
dec(32, "epoch", "Epoch")
dec(16, "capabilities_length", "Length of the capabilities")
fields.padding = ProtoField.bytes("sluice.padding", "Padding")
fields.reserved = ProtoField.bytes("sluice.reserved", "Reserved")
fields.trailing = ProtoField.bytes("sluice.trailing", "Octets behind the end")

dec(16, "message.length", "Length of the message")
dec(8, "message.version", "Version of the form")
fields["message.type"] = ProtoField.uint8("sluice.message.type", "Message", base.HEX, TYPES)
dec(8, "object", "Object", OBJECTS)
hex(8, "request.flags", "Request flags")
dec(64, "request", "Request")
dec(32, "session", "Session")
dec(8, "slot", "Slot")
dec(8, "direction", "Direction", DIRECTIONS)

hex(8, "key.fields", "Fields of the key")
hex(8, "key.kind", "Kind of key")
dec(16, "key.origin", "VRF or own address")
hex(32, "key.teid", "TEID")
fields["key.src"] = ProtoField.ipv4("sluice.key.src", "Source")
fields["key.dst"] = ProtoField.ipv4("sluice.key.dst", "Destination")
fields["key.ue"] = ProtoField.ipv4("sluice.key.ue", "Address of the UE")
fields["key.src6"] = ProtoField.ipv6("sluice.key.src6", "Source")
fields["key.dst6"] = ProtoField.ipv6("sluice.key.dst6", "Destination")
fields["key.prefix"] = ProtoField.bytes("sluice.key.prefix", "Prefix of the UE")
dec(16, "key.srcport", "Source port")
dec(16, "key.dstport", "Destination port")
dec(8, "key.protocol", "Protocol")
hex(8, "key.tos", "TOS")
dec(8, "key.qfi", "QFI")
hex(32, "key.flow_label", "Flow label")

hex(32, "flow.urrs", "URRs of slots 0 to 31")
hex(16, "flow.qers", "QERs of slots 0 to 15")
hex(64, "flow.high_qers", "QERs of slots from 16 on")
hex(32, "flow.high_urrs", "URRs of slots from 32 on")
dec(16, "flow.idle", "Idle, ticks")
dec(32, "generation", "Generation")
hex(8, "flow.flags", "Flow flags")
dec(8, "flow.forward", "Slot of the forward")
dec(8, "flow.marking", "Slot of the QER that marks")
hex(8, "flow.parts", "Parts")
fields["nat.src"] = ProtoField.ipv4("sluice.nat.src", "New source")
fields["nat.dst"] = ProtoField.ipv4("sluice.nat.dst", "New destination")
dec(16, "nat.srcport", "New source port")
dec(16, "nat.dstport", "New destination port")
hex(16, "nat.addresses_sum", "Sum of the addresses")
hex(16, "nat.ports_sum", "Sum of the ports")
hex(8, "nat.changes", "Changes")
dec(32, "content", "Content")

dec(8, "forward.kind", "Kind of forward", FORWARDS)
hex(8, "forward.flags", "Forward flags")
dec(8, "forward.outer", "IP version of the outer header")
dec(32, "adjacency", "Adjacency")
dec(16, "instance", "Instance")
dec(16, "forward.mirror", "Mirror")
hex(8, "forward.parts", "Parts")
dec(8, "forward.dscp", "DSCP")
hex(32, "forward.teid", "TEID")
dec(16, "forward.srcport", "UDP source port")
hex(8, "forward.tos", "TOS")
fields["forward.src"] = ProtoField.ipv4("sluice.forward.src", "Outer source")
fields["forward.dst"] = ProtoField.ipv4("sluice.forward.dst", "Outer destination")
fields["forward.src6"] = ProtoField.ipv6("sluice.forward.src6", "Outer source")
fields["forward.dst6"] = ProtoField.ipv6("sluice.forward.dst6", "Outer destination")

hex(8, "qer.gates", "Closed gates and meters")
hex(16, "qer.mark", "Mark")

dec(8, "meter.state", "There is a state")
dec(8, "meter.kind", "Kind of meter", METERS)
hex(8, "meter.flags", "Meter flags")
dec(64, "meter.rate", "Rate, kbit/s")
dec(64, "meter.burst", "Burst, octets")
dec(16, "meter.packets", "Packets")
dec(8, "meter.unit", "Unit of time", UNITS)
dec(16, "shared", "Shared meter")
dec(64, "meter.tokens", "Tokens, millionths of bits")
dec(64, "moment", "Moment, ns")
dec(16, "meter.left", "Packets left")

dec(8, "queues.shapers", "Shapers")
dec(8, "queues.queues", "Queues")
hex(8, "queues.flags", "Queue flags")
dec(16, "queues.node", "Shared node")
dec(16, "queues.burst", "Burst, milliseconds of the rate")
dec(8, "queues.shaper", "Place of the shaper")
dec(8, "queues.class", "Queue class")
fields["queues.tokens"] = ProtoField.int64("sluice.queues.tokens", "Tokens, millionths of bits")
dec(8, "class.priority", "Priority")
dec(8, "class.weight", "Weight")
dec(8, "class.management", "Queue management", MANAGEMENTS)
dec(8, "class.wred_weight", "Weight of WRED, log2")
dec(32, "class.octets", "Octets of a queue")
dec(32, "class.threshold", "Threshold of WRED, octets")
dec(8, "class.one_in", "WRED hits one in")
hex(8, "node.flags", "Shared node flags")
dec(8, "node.overhead", "Overhead, octets")
dec(32, "node.burst", "Burst, octets")

hex(8, "counter.flags", "Counter flags")
dec(8, "counter.of", "Weighs for slot")
dec(8, "counter.action", "Action of the limit", LIMITS)
dec(16, "counter.times", "Times")
hex(8, "counter.volumes", "Volumes")
dec(64, "counter.volume", "Volume, octets")

dec(16, "instance.port", "Port")
dec(16, "instance.vlan", "VLAN")
hex(16, "instance.tpid", "TPID")
dec(16, "vrf", "VRF")
dec(16, "mtu", "MTU")
fields.ether = ProtoField.ether("sluice.ether", "Link layer address")
hex(8, "instance.uses", "Uses")
dec(8, "instance.too_long", "Packets that are too long", TOO_LONG)
hex(8, "instance.parts", "Parts that follow")
dec(8, "instance.marks", "Marks")
fields.ipv4 = ProtoField.ipv4("sluice.ipv4", "Address")
fields.ipv6 = ProtoField.ipv6("sluice.ipv6", "Address")
dec(8, "prefix_length", "Length of the prefix")
dec(16, "local", "Number of the own address")
dec(16, "instance.mss", "MSS of SYNs")
dec(8, "mark.qfi", "QFI")
dec(8, "mark.green", "DSCP of green packets")
dec(8, "mark.yellow", "DSCP of yellow packets")
dec(8, "mark.pcp", "PCP")
dec(8, "family", "Address family")
dec(8, "route.target", "Target", TARGETS)
hex(8, "route.flags", "Route flags")
hex(8, "adjacency.flags", "Adjacency flags")

dec(8, "entries", "Entries")
dec(8, "more", "More")
dec(8, "refusal", "Refusal", REFUSALS)
dec(64, "ul_packets", "Uplink packets")
dec(64, "ul_octets", "Uplink octets")
dec(64, "dl_packets", "Downlink packets")
dec(64, "dl_octets", "Downlink octets")
dec(64, "events", "Events")
dec(64, "demand", "Demand, octets")
hex(64, "links.down", "Ports without a link")

hex(8, "can.flags", "Capability flags")
hex(16, "can.actions", "Actions")
dec(8, "can.counters", "Counters of a flow")
dec(8, "can.qers", "QERs of a flow")
dec(32, "can.ipv4_flows", "IPv4 flows")
dec(32, "can.ipv6_flows", "IPv6 flows")
dec(32, "can.sessions", "Sessions")
dec(32, "can.routes", "Routes")
dec(32, "can.adjacencies", "Adjacencies")
dec(16, "can.shared_meters", "Shared meters")
dec(16, "can.instances", "Instances")
dec(32, "can.loss", "Loss, packets")
dec(64, "can.counts_every", "Interval of counts, ns")
dec(32, "can.queues", "Queues")
dec(32, "can.queue_packets", "Packets that may wait")
dec(64, "can.queue_octets", "Octets that may wait")
dec(16, "can.shared_nodes", "Shared nodes")
hex(8, "can.managements", "Queue managements")

fields["frame.type"] = ProtoField.uint8("sluice.frame.type", "Type of frame", base.HEX, FRAMES)
dec(8, "frame.class", "Class", CLASSES)
dec(8, "frame.reason", "Reason", REASONS)
dec(8, "frame.tags", "VLAN tags")
dec(8, "frame.hops", "Hops")
dec(16, "frame.port", "Port")
dec(16, "frame.length", "Length of the frame")
dec(16, "frame.user_packet", "Offset of the user packet")
dec(16, "frame.layer4", "Offset of layer 4")
hex(32, "frame.hint", "Flow hint")
dec(64, "frame.time", "Time, ns")
dec(16, "frame.bucket", "Bucket")
dec(64, "frame.counter", "Counter")
dec(16, "frame.flow_length", "Length of the flow")
dec(64, "frame.marker", "Marker")
dec(8, "frame.questions", "Questions")
dec(32, "frame.number", "Number of the question")
dec(16, "frame.head", "Octets that are shown")
dec(8, "frame.answers", "Answers")
dec(16, "frame.answers_length", "Length of the answers")
dec(8, "frame.answer", "Answer", ANSWERS)
hex(8, "can.host_flags", "Host flags")
dec(8, "can.more_channels", "Channels beside the first one")

local list = {}
for _, field in pairs(fields) do
    list[#list + 1] = field
end
control.fields = list

local short = ProtoExpert.new("sluice.short", "Octets are missing", expert.group.MALFORMED, expert.severity.ERROR)
local long = ProtoExpert.new("sluice.long", "Octets behind the end", expert.group.MALFORMED, expert.severity.ERROR)
local unknown = ProtoExpert.new("sluice.unknown", "Unknown number", expert.group.PROTOCOL, expert.severity.ERROR)
control.experts = { short, long, unknown }

-- Where the next field is. An error ends a message, and is shown at it.
local Cursor = {}
Cursor.__index = Cursor

local function cursor(octets, tree)
    return setmetatable({ octets = octets, at = 0, tree = tree }, Cursor)
end

function Cursor:left()
    return self.octets:len() - self.at
end

function Cursor:take(name, count)
    if self:left() < count then
        error({ what = short, name = name })
    end
    local range = self.octets:range(self.at, count)
    self.tree:add(fields[name], range)
    self.at = self.at + count
    return range
end

function Cursor:u8(name)
    return self:take(name, 1):uint()
end

function Cursor:u16(name)
    return self:take(name, 2):uint()
end

function Cursor:u32(name)
    return self:take(name, 4):uint()
end

function Cursor:u64(name)
    return self:take(name, 8)
end

function Cursor:reserved(count)
    self:take("reserved", count)
end

-- Numbers of 8 octets, one after the other.
function Cursor:words(...)
    for _, name in ipairs({ ... }) do
        self:u64(name)
    end
end

local function has(bits, bit)
    return math.floor(bits / bit) % 2 == 1
end

local function key(c)
    local of = c:u8("key.fields")
    local kind = c:u8("key.kind")
    local is_ipv6 = has(kind, 1)
    c:u16("key.origin")
    c:u32("key.teid")
    if has(of, 2) then
        c:take(is_ipv6 and "key.src6" or "key.src", is_ipv6 and 16 or 4)
        c:take(is_ipv6 and "key.dst6" or "key.dst", is_ipv6 and 16 or 4)
        c:u16("key.srcport")
        c:u16("key.dstport")
    elseif has(of, 1) then
        c:take(is_ipv6 and "key.prefix" or "key.ue", is_ipv6 and 8 or 4)
    end
    if has(of, 2) or has(of, 4) or has(of, 8) then
        c:u8("key.protocol")
        c:u8("key.tos")
        c:u8("key.qfi")
        c:reserved(1)
    end
    if is_ipv6 and has(of, 32) then
        c:u32("key.flow_label")
    end
end

local function flow(c)
    key(c)
    c:u32("flow.urrs")
    c:u16("flow.qers")
    c:u16("flow.idle")
    c:u8("flow.flags")
    c:u8("flow.forward")
    c:u8("flow.marking")
    local parts = c:u8("flow.parts")
    c:u32("generation")
    if has(parts, 4) then
        c:u64("flow.high_qers")
        c:u32("flow.high_urrs")
    end
    if has(parts, 1) then
        c:take("nat.src", 4)
        c:take("nat.dst", 4)
        c:u16("nat.srcport")
        c:u16("nat.dstport")
        c:u16("nat.addresses_sum")
        c:u16("nat.ports_sum")
        c:u8("nat.changes")
        c:reserved(3)
    end
    if has(parts, 2) then
        c:u32("content")
    end
end

local function forward(c)
    c:u8("slot")
    c:u8("forward.kind")
    c:u8("forward.flags")
    local version = c:u8("forward.outer")
    c:u32("adjacency")
    c:u16("instance")
    c:u16("forward.mirror")
    c:u8("forward.parts")
    c:u8("forward.dscp")
    c:reserved(2)
    if version == 0 then
        return
    end
    c:u32("forward.teid")
    c:u16("forward.srcport")
    c:u8("forward.tos")
    c:reserved(1)
    c:take(version == 6 and "forward.src6" or "forward.src", version == 6 and 16 or 4)
    c:take(version == 6 and "forward.dst6" or "forward.dst", version == 6 and 16 or 4)
end

local function meter_state(c)
    c:words("meter.tokens", "meter.tokens", "moment")
    c:u16("meter.left")
    c:u16("meter.left")
    c:reserved(4)
    c:words("moment", "moment")
end

local PARAMETERS = {
    [0] = { "meter.rate", "meter.burst" },
    [1] = { "meter.rate", "meter.burst", "meter.burst" },
    [2] = { "meter.rate", "meter.burst", "meter.rate", "meter.burst" },
}

local function meter(c)
    c:u8("slot")
    c:u8("direction")
    local has_state = c:u8("meter.state") == 1
    c:reserved(1)
    local kind = c:u8("meter.kind")
    c:u8("meter.flags")
    c:reserved(2)
    if PARAMETERS[kind] then
        c:words(table.unpack(PARAMETERS[kind]))
    elseif kind == 3 then
        for _ = 1, 2 do
            c:u16("meter.packets")
            c:u8("meter.unit")
            c:reserved(1)
        end
    else
        c:u16("shared")
        c:reserved(2)
    end
    if has_state then
        meter_state(c)
    end
end

local function counter(c)
    c:u8("slot")
    c:u8("counter.flags")
    c:u8("counter.of")
    c:u8("counter.action")
    c:u16("counter.times")
    local volumes = c:u8("counter.volumes")
    c:reserved(1)
    for bit = 0, 5 do
        if has(volumes, 2 ^ bit) then
            c:u64("counter.volume")
        end
    end
end

local function instance(c)
    c:u16("instance")
    c:u16("instance.port")
    c:u16("instance.vlan")
    c:u16("instance.vlan")
    c:u16("instance.tpid")
    c:u16("vrf")
    c:u16("mtu")
    c:take("ether", 6)
    c:u8("instance.uses")
    c:u8("instance.too_long")
    local parts = c:u8("instance.parts")
    local marks = c:u8("instance.marks")
    for _, family in ipairs({ { 1, "ipv4", 4 }, { 2, "ipv6", 16 } }) do
        if has(parts, family[1]) then
            c:take(family[2], family[3])
            c:u8("prefix_length")
            c:reserved(1)
            c:u16("local")
        end
    end
    if has(parts, 4) then
        c:u16("instance.mss")
        c:reserved(2)
    end
    for _ = 1, marks do
        c:u8("mark.qfi")
        c:u8("mark.green")
        c:u8("mark.yellow")
        c:u8("mark.pcp")
    end
end

local function address(c, family)
    if family ~= 0 then
        c:take(family == 6 and "ipv6" or "ipv4", family == 6 and 16 or 4)
    end
end

local function prefix(c)
    c:u16("vrf")
    local family = c:u8("family")
    c:u8("prefix_length")
    address(c, family)
end

local function route(c)
    prefix(c)
    c:u8("route.target")
    c:u8("route.flags")
    c:u16("instance")
    c:u32("adjacency")
end

local function adjacency(c)
    c:u32("adjacency")
    c:u16("instance")
    local family = c:u8("family")
    c:u8("adjacency.flags")
    c:take("ether", 6)
    c:reserved(2)
    address(c, family)
end

local function path_mtu(c)
    local family = c:u8("family")
    c:reserved(1)
    c:u16("mtu")
    address(c, family)
    address(c, family)
end

local function shared(c)
    c:u16("shared")
    c:reserved(2)
end

local function tokens(c, shapers, queues)
    c:u64("moment")
    for _ = 1, shapers + 2 * queues do
        c:u64("queues.tokens")
    end
end

local function queues(c)
    c:u8("direction")
    local shapers = c:u8("queues.shapers")
    local number = c:u8("queues.queues")
    local flags = c:u8("queues.flags")
    c:u16("queues.node")
    c:reserved(2)
    for _ = 1, shapers do
        c:u8("slot")
        c:reserved(1)
        c:u16("queues.burst")
        c:u64("meter.rate")
    end
    for _ = 1, number do
        c:u8("flow.marking")
        c:u8("queues.shaper")
        c:u8("queues.class")
        c:reserved(1)
        c:u16("queues.burst")
        c:reserved(2)
        c:words("meter.rate", "meter.rate")
    end
    if has(flags, 1) then
        tokens(c, shapers, number)
    end
end

local function queue_class(c)
    c:u8("queues.class")
    c:reserved(3)
    c:u8("class.priority")
    c:u8("class.weight")
    local management = c:u8("class.management")
    c:u8("class.wred_weight")
    c:u32("class.octets")
    if management == 3 then
        for _ = 1, 2 do
            c:u32("class.threshold")
            c:u32("class.threshold")
            c:u8("class.one_in")
            c:reserved(3)
        end
    end
end

local function shared_node(c)
    c:u16("queues.node")
    c:reserved(2)
    c:u8("node.flags")
    c:u8("class.weight")
    c:u8("node.overhead")
    c:reserved(1)
    c:u16("queues.node")
    c:reserved(2)
    c:u32("node.burst")
    c:u64("meter.rate")
end

local function nothing() end

local OBJECT = {
    [1] = flow,
    [2] = forward,
    [3] = function(c)
        c:u8("slot")
        c:u8("qer.gates")
        c:u16("qer.mark")
    end,
    [4] = meter,
    [5] = counter,
    [6] = shared,
    [10] = function(c)
        c:u32("generation")
    end,
    [16] = instance,
    [17] = route,
    [18] = adjacency,
    [19] = path_mtu,
    [20] = function(c)
        shared(c)
        c:words("meter.rate", "meter.rate", "meter.burst", "meter.burst")
    end,
    [21] = function(c)
        shared(c)
        for _ = 1, 4 do
            c:u16("shared")
        end
    end,
    [11] = queues,
    [22] = queue_class,
    [23] = shared_node,
}

local function slot(c)
    c:u8("slot")
    c:reserved(3)
end

local NAME = {
    [1] = key,
    [2] = slot,
    [3] = slot,
    [4] = function(c)
        c:u8("slot")
        c:u8("direction")
        c:reserved(2)
    end,
    [5] = slot,
    [6] = nothing,
    [7] = nothing,
    [8] = nothing,
    [9] = nothing,
    [10] = nothing,
    [16] = function(c)
        c:u16("instance")
        c:reserved(2)
    end,
    [17] = prefix,
    [18] = function(c)
        c:u32("adjacency")
    end,
    [19] = path_mtu,
    [20] = shared,
    [21] = shared,
    [11] = function(c)
        c:u8("direction")
        c:reserved(3)
    end,
    [22] = function(c)
        c:u8("queues.class")
        c:reserved(3)
    end,
    [23] = function(c)
        c:u16("queues.node")
        c:reserved(2)
    end,
}

local function request(c, kind)
    local object = c:u8("object")
    c:u8("request.flags")
    c:u64("request")
    c:u32("epoch")
    c:u32("session")
    if kind == 0x15 then
        return
    end
    local dissect = (kind <= 0x12 and OBJECT or NAME)[object]
    if not dissect then
        error({ what = unknown, name = "object" })
    end
    dissect(c)
end

local function counts(c)
    c:words("ul_packets", "ul_octets", "dl_packets", "dl_octets", "events")
end

local function entries(c, count)
    for _ = 1, count do
        slot(c)
        counts(c)
    end
end

local function reply(c, kind)
    local count, shapers = 0, 0
    if kind == 0x21 or kind == 0x23 then
        count = c:u8("entries")
        c:u8("more")
    elseif kind == 0x25 then
        c:u8("refusal")
        c:reserved(1)
    elseif kind == 0x26 then
        shapers = c:u8("queues.shapers")
        count = c:u8("queues.queues")
    else
        c:reserved(2)
    end
    c:u64("request")
    if kind == 0x21 then
        entries(c, count)
    elseif kind == 0x22 then
        meter_state(c)
    elseif kind == 0x23 then
        for _ = 1, count do
            c:u32("content")
            counts(c)
            c:words("moment", "moment")
        end
    elseif kind == 0x24 then
        c:words("demand", "demand")
    elseif kind == 0x26 then
        tokens(c, shapers, count)
    end
end

local EVENT = {
    [0x30] = function(c)
        local count = c:u8("entries")
        c:u8("more")
        c:u32("session")
        key(c)
        entries(c, count)
    end,
    [0x31] = function(c)
        c:u8("slot")
        c:reserved(1)
        c:u32("session")
    end,
    [0x32] = function(c)
        c:u8("slot")
        c:u8("direction")
        c:u32("session")
    end,
    [0x33] = function(c)
        local count = c:u8("entries")
        c:u8("more")
        c:u32("session")
        entries(c, count)
    end,
    [0x34] = function(c)
        c:reserved(2)
        key(c)
    end,
    [0x35] = function(c)
        c:reserved(2)
        c:u32("epoch")
    end,
    [0x36] = function(c)
        c:reserved(2)
    end,
    [0x37] = function(c)
        c:reserved(2)
        c:u64("links.down")
    end,
}

local function capabilities(c)
    c:u8("key.fields")
    local flags = c:u8("can.flags")
    c:u16("can.actions")
    c:u8("can.counters")
    c:u8("can.qers")
    c:u32("can.ipv4_flows")
    c:u32("can.ipv6_flows")
    c:u32("can.sessions")
    c:u32("can.routes")
    c:u32("can.adjacencies")
    c:u16("can.shared_meters")
    c:u16("can.instances")
    c:u32("can.loss")
    c:u64("can.counts_every")
    if has(flags, 32) then
        c:u32("can.queues")
        c:u32("can.queue_packets")
        c:u64("can.queue_octets")
        c:u16("can.shared_nodes")
        c:u8("can.managements")
        c:reserved(1)
    end
end

-- Runs `dissect`, which has to use up all of the cursor's octets.
local function whole(c, dissect)
    local done, fault = pcall(dissect, c)
    if not done then
        if type(fault) ~= "table" then
            error(fault)
        end
        c.tree:add_proto_expert_info(fault.what, fault.name)
    elseif c:left() > 0 then
        c.tree:add(fields.trailing, c.octets:range(c.at))
        c.tree:add_proto_expert_info(long)
    end
end

-- One message. Returns its name.
local function message(octets, tree)
    local of = tree:add(control, octets, "Message")
    local c = cursor(octets, of)
    local name = "message"
    whole(c, function()
        c:u8("message.version")
        local kind = c:u8("message.type")
        if not TYPES[kind] then
            error({ what = unknown, name = "message.type" })
        end
        name = TYPES[kind]
        if kind < 0x20 then
            request(c, kind)
            name = kind == 0x15 and name or name .. " " .. OBJECTS[octets:range(2, 1):uint()]
        elseif kind < 0x30 then
            reply(c, kind)
        elseif kind < 0x40 then
            EVENT[kind](c)
        elseif kind == 0x41 then
            c:u8("can.host_flags")
            c:u8("can.more_channels")
        else
            capabilities(c)
        end
    end)
    of:set_text("Message: " .. name)
    return name
end

local function handshake(c)
    c:take("nonce", 16)
    c:take("peer_nonce", 16)
    c:u64("peer_boot")
    c:u64("clock")
    c:u64("echoed_clock")
    c:u32("epoch")
    local length = c:u16("capabilities_length")
    c:reserved(2)
    local padded = c.at
    if length > 0 and c:left() >= length then
        message(c.octets:range(padded, length), c.tree)
        c.at = padded + length
    end
    if padded + 256 > c.at then
        c:take("padding", padded + 256 - c.at)
    end
end

function control.dissector(buffer, pinfo, root)
    pinfo.cols.protocol = "SLUICE-CTL"
    local tree = root:add(control, buffer())
    local c = cursor(buffer:range(), tree)
    local names = {}
    local kind
    local done, fault = pcall(function()
        c:u8("version")
        kind = c:u8("kind")
        c:u8("channel")
        c:u8("role")
        c:u32("handshake")
        c:words("boot", "sequence", "acknowledged", "bitmap")
        local length = c:u16("length")
        c:reserved(2)
        if c:left() < length + 16 then
            error({ what = short, name = "length" })
        end
        if length > 0 then
            local payload = cursor(c.octets:range(c.at, length), tree)
            if kind >= 1 and kind <= 3 then
                whole(payload, handshake)
            elseif kind == 4 then
                whole(payload, function()
                    while payload:left() > 0 do
                        local count = payload:u16("message.length")
                        if count == 0 or payload:left() < count then
                            error({ what = short, name = "message" })
                        end
                        names[#names + 1] = message(payload.octets:range(payload.at, count), tree)
                        payload.at = payload.at + count
                    end
                end)
            end
            c.at = c.at + length
        end
        c:take("mac", 16)
    end)
    if not done then
        if type(fault) ~= "table" then
            error(fault)
        end
        tree:add_proto_expert_info(fault.what, fault.name)
    end
    pinfo.cols.info = (KINDS[kind] or "?") .. " " .. table.concat(names, ", ")
end

local ethernet = Dissector.get("eth_withoutfcs")

local function exception_header(c)
    c:u8("frame.class")
    local reason = c:u8("frame.reason")
    c:u8("frame.tags")
    c:u8("frame.hops")
    c:reserved(1)
    c:u16("frame.port")
    local length = c:u16("frame.length")
    c:u16("frame.user_packet")
    c:u16("frame.layer4")
    c:u32("frame.hint")
    c:u64("frame.time")
    return length, REASONS[reason]
end

-- The header of a frame with a frame behind it; the length of that one.
local HEADER = {
    [1] = exception_header,
    [4] = function(c)
        local length, reason = exception_header(c)
        c:u16("frame.bucket")
        c:reserved(2)
        return length, reason
    end,
    [0x81] = function(c)
        c:reserved(1)
        c:u16("frame.port")
        return c:u16("frame.length")
    end,
    [0x82] = function(c)
        c:u8("frame.hops")
        c:u32("session")
        c:u64("frame.counter")
        c:u16("frame.port")
        local length = c:u16("frame.length")
        local count = c:u16("frame.flow_length")
        c:reserved(2)
        if c:left() < count + 16 then
            error({ what = short, name = "frame.flow_length" })
        end
        local of = c.octets:range(c.at, count)
        whole(cursor(of, c.tree:add(control, of, "Flow")), flow)
        c.at = c.at + count
        c:take("mac", 16)
        return length
    end,
}

local function questions(c)
    for _ = 1, c:u8("frame.questions") do
        c:u32("frame.number")
        c:u16("frame.port")
        c:u16("frame.length")
        c:u16("frame.user_packet")
        c:u16("frame.layer4")
        local count = c:u16("frame.head")
        c:reserved(2)
        local padded = count + (4 - count % 4) % 4
        if c:left() < padded then
            error({ what = short, name = "frame.head" })
        end
        c.at = c.at + padded
    end
end

local function answers(c)
    local count = c:u8("frame.answers")
    c:u64("frame.counter")
    c:u16("frame.answers_length")
    c:reserved(2)
    for _ = 1, count do
        c:u32("frame.number")
        local answer = c:u8("frame.answer")
        c:reserved(1)
        local length = c:u16("frame.flow_length")
        if answer == 1 then
            c:u32("session")
            if c:left() < length then
                error({ what = short, name = "frame.flow_length" })
            end
            local of = c.octets:range(c.at, length)
            whole(cursor(of, c.tree:add(control, of, "Flow")), flow)
            c.at = c.at + length
        end
    end
    c:take("mac", 16)
end

local function marker(c)
    c:reserved(1)
    c:u64("frame.marker")
end

function exception.dissector(buffer, pinfo, root)
    local tree = root:add(exception, buffer())
    local c = cursor(buffer:range(), tree)
    local text, inner = "?", nil
    local done, fault = pcall(function()
        c:u8("version")
        local kind = c:u8("frame.type")
        c:u8("channel")
        text = FRAMES[kind] or "?"
        if kind == 2 or kind == 0x83 then
            return marker(c)
        end
        if kind == 3 then
            return questions(c)
        end
        if kind == 0x84 then
            return answers(c)
        end
        if not HEADER[kind] then
            error({ what = unknown, name = "frame.type" })
        end
        local length, why = HEADER[kind](c)
        text = why and (text .. ": " .. why) or text
        if c:left() < length then
            error({ what = short, name = "frame.length" })
        end
        inner = c.octets:range(c.at, length)
        tree:set_len(c.at)
        c.at = c.at + length
    end)
    if not done then
        if type(fault) ~= "table" then
            error(fault)
        end
        tree:add_proto_expert_info(fault.what, fault.name)
    end
    if inner then
        ethernet:call(inner:tvb(), pinfo, root)
    end
    pinfo.cols.protocol = "SLUICE-EXC"
    pinfo.cols.info:prepend(text .. " | ")
end

local types = DissectorTable.get("ethertype")
types:add(0x88b5, control)
types:add(0x88b6, exception)
