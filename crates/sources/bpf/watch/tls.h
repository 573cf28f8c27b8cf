/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Connections with TLS. The client's flights of a handshake are no requests, so they begin
 * no exchange, and the server's flights answer none. Only the headers of records are read
 * (RFC 8446, section 5.1; RFC 5246, section 6.2). The analysis reads the records of both
 * ends in the same way (crates/core/src/connection/pairing/tls.rs). */
#ifndef LAGTRACE_WATCH_TLS_H
#define LAGTRACE_WATCH_TLS_H

#define RECORD_HEADER 5
/* Length of a record's header and the type of the handshake message in it. */
#define RECORD_START 6
#define MAX_RECORD (16384 + 2048)
/* Types of records. */
#define CHANGE_CIPHER_SPEC 20
#define ALERT 21
#define HANDSHAKE 22
#define APPLICATION_DATA 23
/* Types of the handshake messages with which a client's flight begins. */
#define CLIENT_HELLO 1
#define CERTIFICATE 11
#define CLIENT_KEY_EXCHANGE 16
/* Lengths of an encrypted Finished of TLS 1.3 and of an encrypted alert. */
#define FINISHED_SHORT 53
#define FINISHED_LONG 69
#define ENCRYPTED_ALERT 19
/* Up to TLS 1.2, an encrypted Finished is shorter than this, and a hello is longer. */
#define LEAST_HELLO 100
/* Maximum number of records in a segment that are read. */
#define MAX_RECORDS 6
/* Maximum number of encrypted records in a client's part of a handshake of TLS 1.3: a
 * certificate, its proof, and the Finished, with room for a long certificate. */
#define MAX_ENCRYPTED 6
/* Maximum number of messages before a ClientHello: some protocols ask for TLS first. */
#define MAX_BEFORE_HELLO 4

static __always_inline bool is_record(const __u8 *header)
{
	__u32 length = (__u32)header[3] << 8 | header[4];

	return header[0] >= CHANGE_CIPHER_SPEC && header[0] <= APPLICATION_DATA && header[1] == 3 &&
	       header[2] <= 4 && length && length <= MAX_RECORD;
}

/* Advances over a client's record. Returns true if it belongs to the handshake. */
static __always_inline bool advance(struct tls_state *h, const __u8 *header)
{
	__u32 length = (__u32)header[3] << 8 | header[4];

	if (header[0] == CHANGE_CIPHER_SPEC) {
		h->phase = TLS_CIPHERED;
	} else if (header[0] == HANDSHAKE && h->phase == TLS_CIPHERED) {
		/* TLS 1.3 may send a ChangeCipherSpec without meaning before its second hello. */
		h->phase = header[5] == CLIENT_HELLO && length >= LEAST_HELLO ? TLS_BEGUN : TLS_FINISHED;
	} else if (header[0] == APPLICATION_DATA) {
		if (h->phase == TLS_FINISHED)
			return false;
		h->encrypted += 1;
		if (length == FINISHED_SHORT || length == FINISHED_LONG || h->encrypted >= MAX_ENCRYPTED)
			h->phase = TLS_FINISHED;
	}
	h->next_seq += RECORD_HEADER + length;
	return true;
}

/* Returns true if the first segment of a client's message begins a handshake, or continues
 * one whose hello was not seen (with TCP_DEFER_ACCEPT). */
static __always_inline bool begins_tls_handshake(struct tls_state *h, struct sk_buff *skb, __u32 offset, __u32 len)
{
	__u8 header[RECORD_START];

	h->before += 1;
	if (len < RECORD_START || !read_bytes(skb, offset, header, RECORD_START) || !is_record(header))
		return false;
	if (header[0] == APPLICATION_DATA || header[0] == ALERT)
		h->phase = TLS_OVER;
	return header[0] == CHANGE_CIPHER_SPEC ||
	       (header[0] == HANDSHAKE &&
		(header[5] == CLIENT_HELLO || header[5] == CERTIFICATE || header[5] == CLIENT_KEY_EXCHANGE));
}

/* Follows the records of a client's segment, whose payload has `len` bytes at `offset` and
 * begins with `seq`. Returns how many of its bytes belong to the handshake. */
static __noinline __u32 follow(struct tls_state *h, struct sk_buff *skb, __u32 offset, __u32 len, __u32 seq)
{
	for (int i = 0; i < MAX_RECORDS; i++) {
		__u8 header[RECORD_START];
		__u32 at = h->next_seq - seq;

		if ((__s32)at >= (__s32)len)
			return len;
		/* A segment before this one is missing. */
		if ((__s32)at < 0)
			break;
		if (!read_bytes(skb, offset + at, header, RECORD_START) || !is_record(header))
			break;
		if (!advance(h, header)) {
			h->phase = TLS_ANSWERING;
			return at;
		}
	}
	/* The records could not be followed. What comes next counts as a request. */
	h->phase = TLS_OVER;
	return 0;
}

/* Returns how many bytes of a client's segment, as in follow(), belong to a handshake. The
 * first segment of a message begins one (`is_first`). */
static __always_inline __u32 of_tls_handshake(struct tls_state *h, struct sk_buff *skb, __u32 offset, __u32 len,
					  __u32 seq, bool is_first)
{
	if (h->phase == TLS_NONE) {
		if (!is_first || h->before >= MAX_BEFORE_HELLO || !begins_tls_handshake(h, skb, offset, len))
			return 0;
		h->phase = TLS_BEGUN;
		h->next_seq = seq;
	}
	return h->phase < TLS_ANSWERING ? follow(h, skb, offset, len, seq) : 0;
}

/* Returns true if the program has read nothing of the first request after a handshake, of
 * which it has read the bytes up to `read_seq`. What it sends until then ends the handshake
 * (tickets). */
static __always_inline bool is_unasked(const struct tls_state *h, __u32 read_seq)
{
	return h->phase == TLS_ANSWERING && (__s32)(read_seq - h->next_seq) <= 0;
}

/* Returns true if a message on a connection with TLS is an alert, with which a client
 * closes the connection. It is not answered. */
static __always_inline bool is_alert(const struct tls_state *h, struct sk_buff *skb, __u32 offset, __u32 len)
{
	__u8 header[RECORD_HEADER];

	if (h->phase < TLS_ANSWERING || len < RECORD_HEADER ||
	    !read_bytes(skb, offset, header, RECORD_HEADER))
		return false;
	return is_record(header) &&
	       (header[0] == ALERT || (header[0] == APPLICATION_DATA && !header[3] && header[4] == ENCRYPTED_ALERT));
}

#endif
