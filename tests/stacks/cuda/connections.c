/* SPDX-License-Identifier: BSD-3-Clause */
/* connections.c -- librdmacm's connections for libfabric, over TCP (part of a preload)
 *
 * The simulated adapter has no connection manager of the kernel, and libfabric connects its
 * endpoints by librdmacm alone. Here each connection is a TCP connection, over which the two sides
 * send a note each: request, reply or rejection, ready. The end of the stream ends the connection.
 * A channel's descriptor is an epoll of its sockets, and of a count of events that no socket
 * causes.
 *
 * Only calls of libfabric's verbs provider, with reliable connections. Errors are errno, as in
 * librdmacm.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#define EXPORT	 __attribute__((visibility("default")))
#define DATA_MAX 255 /* bytes of private data */

enum note_kind { NOTE_REQUEST, NOTE_REPLY, NOTE_REJECTION, NOTE_READY };

/* A side's queue pair, and private data of its client. */
struct note {
	enum note_kind kind;
	uint32_t qp_num;
	union ibv_gid gid;
	uint8_t bytes, data[DATA_MAX];
};

enum state { IDLE, LISTENING, REQUESTED, CONNECTING, ACCEPTED, CONNECTED };

struct connection {
	struct rdma_cm_id id; /* first: the client's pointer */
	int socket;	      /* or -1 */
	enum state state;
	struct note peer;
};

struct event {
	struct rdma_cm_event event; /* first: the client's pointer */
	struct event *next;
	struct note note; /* its private data */
};

struct channel {
	struct rdma_event_channel channel; /* first: the client's pointer */
	int count;			   /* of events in the list: a semaphore */
	struct event *events;		   /* under `lock` */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct connection *connection_of(struct rdma_cm_id *id)
{
	return (struct connection *)id;
}

static struct channel *channel_of(const struct connection *connection)
{
	return (struct channel *)connection->id.channel;
}

/* ---- events ---- */

static void event_append(struct channel *channel, struct event *event)
{
	struct event **last = &channel->events;

	while (*last)
		last = &(*last)->next;
	event->next = NULL;
	*last = event;
	(void)!eventfd_write(channel->count, 1);
}

/* An identifier without a channel waits in its calls, which end at once here. */
static int event_report(struct connection *connection, enum rdma_cm_event_type type, int status,
			const struct note *note, struct connection *listener)
{
	struct event *event;

	if (!connection->id.channel)
		return 0;
	event = calloc(1, sizeof(*event));
	if (!event)
		return -1;
	event->event.id = &connection->id;
	event->event.listen_id = listener ? &listener->id : NULL;
	event->event.event = type;
	event->event.status = status;
	if (note) {
		event->note = *note;
		event->event.param.conn.private_data = note->bytes ? event->note.data : NULL;
		event->event.param.conn.private_data_len = note->bytes;
		event->event.param.conn.qp_num = note->qp_num;
	}
	pthread_mutex_lock(&lock);
	event_append(channel_of(connection), event);
	pthread_mutex_unlock(&lock);
	return 0;
}

static struct event *event_take(struct channel *channel)
{
	struct event *event;
	eventfd_t one;

	pthread_mutex_lock(&lock);
	event = channel->events;
	if (event) {
		channel->events = event->next;
		(void)!eventfd_read(channel->count, &one);
	}
	pthread_mutex_unlock(&lock);
	return event;
}

/* Events of this connection go to another channel, or, NULL, are dropped. */
static void event_move(struct connection *connection, struct channel *to)
{
	struct channel *from = channel_of(connection);
	struct event **at, *event;
	eventfd_t one;

	pthread_mutex_lock(&lock);
	for (at = from ? &from->events : NULL; at && *at;) {
		event = *at;
		if (event->event.id != &connection->id) {
			at = &event->next;
			continue;
		}
		*at = event->next;
		(void)!eventfd_read(from->count, &one);
		if (to)
			event_append(to, event);
		else
			free(event);
	}
	pthread_mutex_unlock(&lock);
}

static void watch(struct connection *connection)
{
	struct epoll_event readable = { .events = EPOLLIN, .data.ptr = connection };

	if (connection->id.channel && connection->socket >= 0)
		epoll_ctl(connection->id.channel->fd, EPOLL_CTL_ADD, connection->socket, &readable);
}

static void unwatch(struct connection *connection)
{
	if (connection->id.channel && connection->socket >= 0)
		epoll_ctl(connection->id.channel->fd, EPOLL_CTL_DEL, connection->socket, NULL);
}

/* ---- queue pairs ---- */

static int pair_to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};

	return ibv_modify_qp(qp, &attributes,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int pair_to_ready(struct ibv_qp *qp, const struct note *peer)
{
	struct ibv_device_attr device = { .max_qp_rd_atom = 1 };
	struct ibv_port_attr port;
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTR,
		.dest_qp_num = peer->qp_num,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .grh = { .dgid = peer->gid, .hop_limit = 64 },
			     .port_num = 1 },
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	int result = ibv_query_device(qp->context, &device);

	if (!result)
		result = ibv_query_port(qp->context, 1, &port);
	if (result)
		return result;
	attributes.path_mtu = port.active_mtu;
	attributes.ah_attr.dlid = port.lid;
	attributes.max_rd_atomic = device.max_qp_rd_atom < 16 ? device.max_qp_rd_atom : 16;
	attributes.max_dest_rd_atomic = attributes.max_rd_atomic;
	result = ibv_modify_qp(qp, &attributes,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
	if (result)
		return result;
	attributes.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, &attributes,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* ---- notes ---- */

static int note_send(struct connection *connection, enum note_kind kind, const void *data,
		     uint8_t bytes)
{
	struct note note = { .kind = kind, .bytes = bytes };

	if (bytes)
		memcpy(note.data, data, bytes);
	if (connection->id.qp) {
		note.qp_num = connection->id.qp->qp_num;
		if (ibv_query_gid(connection->id.verbs, 1, 0, &note.gid))
			return -1;
	}
	return send(connection->socket, &note, sizeof(note), MSG_NOSIGNAL) == sizeof(note) ? 0 : -1;
}

/* A side sends a note by one call: what is left of it arrives soon. False: the stream ended. */
static bool note_receive(struct connection *connection, struct note *note)
{
	return recv(connection->socket, note, sizeof(*note), MSG_WAITALL) == sizeof(*note);
}

/* ---- steps of a connection, as its socket becomes readable ---- */

static struct connection *connection_create(struct rdma_event_channel *channel, void *context,
					    enum rdma_port_space space)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		return NULL;
	connection->socket = -1;
	connection->id.channel = channel;
	connection->id.context = context;
	connection->id.ps = space;
	connection->id.qp_type = IBV_QPT_RC;
	return connection;
}

static int connection_use_adapter(struct connection *connection)
{
	struct ibv_context **devices = rdma_get_devices(NULL);

	if (!devices)
		return -1;
	connection->id.verbs = devices[0];
	connection->id.port_num = 1;
	rdma_free_devices(devices);
	return 0;
}

static void connection_arrived(struct connection *listener)
{
	struct connection *connection =
		connection_create(listener->id.channel, listener->id.context, listener->id.ps);
	struct rdma_addr *address = connection ? &connection->id.route.addr : NULL;
	socklen_t local = sizeof(address->src_storage), remote = sizeof(address->dst_storage);

	if (!connection)
		return;
	connection->socket = accept(listener->socket, &address->dst_addr, &remote);
	if (connection->socket < 0 || getsockname(connection->socket, &address->src_addr, &local) ||
	    connection_use_adapter(connection) || !note_receive(connection, &connection->peer)) {
		rdma_destroy_id(&connection->id);
		return;
	}
	connection->state = REQUESTED;
	watch(connection);
	event_report(connection, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &connection->peer, listener);
}

static void connection_answered(struct connection *connection, const struct note *note)
{
	if (note->kind == NOTE_REPLY && !pair_to_ready(connection->id.qp, note) &&
	    !note_send(connection, NOTE_READY, NULL, 0)) {
		connection->state = CONNECTED;
		event_report(connection, RDMA_CM_EVENT_ESTABLISHED, 0, note, NULL);
		return;
	}
	unwatch(connection);
	/* 28 is a rejection by the client. */
	event_report(connection, RDMA_CM_EVENT_REJECTED, 28, note, NULL);
}

static void connection_step(struct connection *connection)
{
	enum state before = connection->state;
	struct note note;

	if (before == LISTENING) {
		connection_arrived(connection);
		return;
	}
	if (note_receive(connection, &note)) {
		if (before == CONNECTING) {
			connection_answered(connection, &note);
		} else if (before == ACCEPTED && note.kind == NOTE_READY) {
			connection->state = CONNECTED;
			event_report(connection, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, NULL);
		}
		return;
	}
	unwatch(connection);
	connection->state = IDLE;
	if (before == CONNECTED)
		event_report(connection, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, NULL);
	else if (before != REQUESTED)
		event_report(connection, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL, NULL);
}

/* ---- channels ---- */

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	struct epoll_event readable = { .events = EPOLLIN };

	if (!channel)
		return NULL;
	channel->channel.fd = epoll_create1(EPOLL_CLOEXEC);
	channel->count = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (epoll_ctl(channel->channel.fd, EPOLL_CTL_ADD, channel->count, &readable)) {
		rdma_destroy_event_channel(&channel->channel);
		return NULL;
	}
	return &channel->channel;
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *public)
{
	struct channel *channel = (struct channel *)public;

	close(channel->channel.fd);
	close(channel->count);
	free(channel);
}

/* Does not wait: libfabric's channels are non-blocking. */
EXPORT int rdma_get_cm_event(struct rdma_event_channel *public, struct rdma_cm_event **result)
{
	struct channel *channel = (struct channel *)public;
	struct epoll_event ready;
	struct event *event;

	while (!(event = event_take(channel))) {
		if (epoll_wait(channel->channel.fd, &ready, 1, 0) < 1) {
			errno = EAGAIN;
			return -1;
		}
		if (ready.data.ptr)
			connection_step(ready.data.ptr);
	}
	*result = &event->event;
	return 0;
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}

/* ---- identifiers ---- */

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space space)
{
	struct connection *connection = connection_create(channel, context, space);

	*id = connection ? &connection->id : NULL;
	return connection ? 0 : -1;
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct connection *connection = connection_of(id);

	event_move(connection, NULL);
	unwatch(connection);
	if (connection->socket >= 0)
		close(connection->socket);
	free(connection);
	return 0;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (id->qp)
		ibv_destroy_qp(id->qp);
	id->qp = NULL;
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct connection *connection = connection_of(id);

	unwatch(connection);
	event_move(connection, (struct channel *)channel);
	id->channel = channel;
	if (connection->state != IDLE)
		watch(connection);
	return 0;
}

static socklen_t address_bytes(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	struct connection *connection = connection_of(id);
	socklen_t bytes = sizeof(id->route.addr.src_storage);
	int one = 1;

	connection->socket = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connection->socket < 0)
		return -1;
	setsockopt(connection->socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(connection->socket, address, address_bytes(address)) ||
	    getsockname(connection->socket, &id->route.addr.src_addr, &bytes))
		return -1;
	return connection_use_adapter(connection);
}

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	struct connection *connection = connection_of(id);

	if (listen(connection->socket, backlog > 0 ? backlog : SOMAXCONN))
		return -1;
	connection->state = LISTENING;
	watch(connection);
	return 0;
}

EXPORT uint16_t rdma_get_src_port(struct rdma_cm_id *id)
{
	return id->route.addr.src_sin.sin_port; /* also that of an IPv6 address */
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
			     int timeout)
{
	(void)timeout;
	if (from)
		memcpy(&id->route.addr.src_storage, from, address_bytes(from));
	memcpy(&id->route.addr.dst_storage, to, address_bytes(to));
	if (connection_use_adapter(connection_of(id)))
		return -1;
	return event_report(connection_of(id), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, NULL);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout)
{
	(void)timeout;
	return event_report(connection_of(id), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, NULL);
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *attributes)
{
	id->qp = ibv_create_qp(pd, attributes);
	if (!id->qp)
		return -1;
	id->pd = pd;
	id->send_cq = attributes->send_cq;
	id->recv_cq = attributes->recv_cq;
	id->srq = attributes->srq;
	errno = pair_to_init(id->qp);
	return errno ? -1 : 0;
}

/* ---- both sides ---- */

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
	struct connection *connection = connection_of(id);
	struct sockaddr_storage from = id->route.addr.src_storage;
	struct sockaddr *to = &id->route.addr.dst_addr;
	socklen_t bytes = sizeof(id->route.addr.src_storage);

	/* The peer sees the address; the port is any. */
	((struct sockaddr_in *)&from)->sin_port = 0;
	connection->socket = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connection->socket < 0)
		return -1;
	if (from.ss_family == to->sa_family)
		(void)!bind(connection->socket, (struct sockaddr *)&from, address_bytes(to));
	if (connect(connection->socket, to, address_bytes(to)))
		return errno == ECONNREFUSED
			       ? event_report(connection, RDMA_CM_EVENT_REJECTED, 8, NULL, NULL)
			       : -1;
	getsockname(connection->socket, &id->route.addr.src_addr, &bytes);
	if (note_send(connection, NOTE_REQUEST, parameters->private_data,
		      parameters->private_data_len))
		return -1;
	connection->state = CONNECTING;
	watch(connection);
	return 0;
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
	struct connection *connection = connection_of(id);

	errno = pair_to_ready(id->qp, &connection->peer);
	if (errno || note_send(connection, NOTE_REPLY, parameters->private_data,
			       parameters->private_data_len))
		return -1;
	connection->state = ACCEPTED;
	return 0;
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	return note_send(connection_of(id), NOTE_REJECTION, data, bytes);
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_ERR };

	if (id->qp)
		ibv_modify_qp(id->qp, &attributes, IBV_QP_STATE);
	return shutdown(connection_of(id)->socket, SHUT_WR);
}
