// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/tls.h>

#include <cohort/engine/error.h>
#include <cohort/net/auth/crypto.h>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>
#include <optional>
#include <utility>

namespace cohort {
namespace {

constexpr const char* kIdentity = "cohort";
/// A record of TLS holds that much.
constexpr std::size_t kRecord = SSL3_RT_MAX_PLAIN_LENGTH;
/// What one call takes from the kernel.
constexpr std::size_t kReadAhead = 4 * (kRecord + SSL3_RT_MAX_ENCRYPTED_OVERHEAD);
/// One key of AES-GCM may encrypt some 2^24 records (RFC 8446, 5.5).
constexpr std::uint64_t kRecordsOfKey = 1U << 22;

std::string reason_of_openssl() {
  std::array<char, 256> reason{};
  const unsigned long code = ERR_peek_last_error();
  ERR_error_string_n(code, reason.data(), reason.size());
  ERR_clear_error();
  return code == 0 ? "the connection ended" : std::string(reason.data());
}

Error internal(std::string_view doing) {
  return Error(ErrorKind::Internal,
               fmt::format("OpenSSL failed at {}: {}; check the OpenSSL installation and "
                           "its configuration file",
                           doing, reason_of_openssl()));
}

/// Where OpenSSL's bytes go to and come from.
struct Wire {
  Network& network;
  int socket;
};

const Wire& wire_of(BIO* bio) noexcept { return *static_cast<const Wire*>(BIO_get_data(bio)); }

int write_to_wire(BIO* bio, const char* bytes, std::size_t size, std::size_t* written) noexcept {
  BIO_clear_retry_flags(bio);
  const Wire& wire = wire_of(bio);
  const int result = wire.network.send(wire.socket, std::as_bytes(std::span(bytes, size)), {});
  if (result == -EAGAIN || result == -EINTR) BIO_set_retry_write(bio);
  errno = result < 0 ? -result : 0;
  *written = static_cast<std::size_t>(std::max(result, 0));
  return result > 0 ? 1 : 0;
}

int read_from_wire(BIO* bio, char* into, std::size_t size, std::size_t* got) noexcept {
  BIO_clear_retry_flags(bio);
  const Wire& wire = wire_of(bio);
  const int result = wire.network.receive(wire.socket, std::as_writable_bytes(std::span(into, size)));
  if (result == -EAGAIN || result == -EINTR) BIO_set_retry_read(bio);
  errno = result < 0 ? -result : 0;
  *got = static_cast<std::size_t>(std::max(result, 0));
  return result > 0 ? 1 : 0;
}

long control_wire(BIO* bio, int command, long, void*) noexcept {
  (void)bio;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/// Until the process ends.
BIO_METHOD* wire_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cohort");
    if (made == nullptr || BIO_meth_set_write_ex(made, write_to_wire) != 1 ||
        BIO_meth_set_read_ex(made, read_from_wire) != 1 || BIO_meth_set_ctrl(made, control_wire) != 1)
      throw internal("setting up TLS");
    return made;
  }();
  return method;
}

unsigned give_key(const Secret& key, unsigned char* into, std::size_t room) noexcept {
  if (room < Secret::kBytes) return 0;
  std::ranges::copy(key.bytes(), reinterpret_cast<std::byte*>(into));
  return Secret::kBytes;
}

/// The key is the session's only during its handshake.
const Secret*& key_of(SSL* session) noexcept {
  return *static_cast<const Secret**>(SSL_get_app_data(session));
}

unsigned give_key_of_client(SSL* session, const char*, char* identity, unsigned identity_room,
                            unsigned char* key, unsigned key_room) noexcept {
  const std::string_view name = kIdentity;
  if (identity_room <= name.size() || key_of(session) == nullptr) return 0;
  identity[name.copy(identity, name.size())] = '\0';
  return give_key(*key_of(session), key, key_room);
}

unsigned give_key_of_server(SSL* session, const char* identity, unsigned char* key,
                            unsigned key_room) noexcept {
  if (identity != std::string_view(kIdentity) || key_of(session) == nullptr) return 0;
  return give_key(*key_of(session), key, key_room);
}

/// Keeps to what two ends of cohort need of TLS: no certificates, no resumption. Until the process ends.
SSL_CTX* context() {
  static SSL_CTX* const shared = [] {
    SSL_CTX* made = SSL_CTX_new(TLS_method());
    if (made == nullptr || SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(made, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") != 1 ||
        SSL_CTX_set_num_tickets(made, 0) != 1)
      throw internal("setting up TLS");
    SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(made, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(made, 1);
    SSL_CTX_set_default_read_buffer_len(made, kReadAhead);
    SSL_CTX_set_psk_client_callback(made, give_key_of_client);
    SSL_CTX_set_psk_server_callback(made, give_key_of_server);
    return made;
  }();
  return shared;
}

enum class Role : std::uint8_t { client, server };

/// The session of one connection.
class TlsSession final : public SocketProtection {
 public:
  TlsSession(Network& network, int socket, const Secret& key, Role role)
      : wire_{network, socket}, key_(&key), session_(SSL_new(context())) {
    BIO* bio = BIO_new(wire_method());
    if (session_ == nullptr || bio == nullptr) throw internal("making a TLS session");
    BIO_set_data(bio, &wire_);
    BIO_set_init(bio, 1);
    SSL_set_bio(session_.get(), bio, bio);
    SSL_set_app_data(session_.get(), &key_);
    role == Role::client ? SSL_set_connect_state(session_.get()) : SSL_set_accept_state(session_.get());
  }

  /// 0 when it stands, else what it waits for, or SSL_ERROR_SSL or SSL_ERROR_SYSCALL: it failed.
  int go_on() noexcept {
    ERR_clear_error();
    const int result = SSL_do_handshake(session_.get());
    if (result == 1) key_ = nullptr;
    return result == 1 ? 0 : SSL_get_error(session_.get(), result);
  }

  int send(std::span<const std::byte> first, std::span<const std::byte> second) noexcept override;
  int receive(std::span<std::byte> into) noexcept override;
  bool has_received() const noexcept override { return !is_drained_; }

 private:
  struct Free {
    void operator()(SSL* session) const noexcept { SSL_free(session); }
  };

  int send_record(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] int failure(int result) noexcept;

  Wire wire_;
  const Secret* key_;
  std::unique_ptr<SSL, Free> session_;
  std::optional<int> end_;     ///< what the last call to OpenSSL that may be made has said
  std::size_t under_way_ = 0;  ///< bytes of a record that the network has not all taken
  std::uint64_t records_ = 0;  ///< since the key was made
  bool is_drained_ = false;
};

/// OpenSSL says once what has ended a session.
int TlsSession::failure(int result) noexcept {
  const int kind = SSL_get_error(session_.get(), result);
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) return -EAGAIN;
  if (kind == SSL_ERROR_ZERO_RETURN)
    end_ = 0;
  else
    end_ = kind == SSL_ERROR_SYSCALL ? -errno : -EBADMSG;
  return *end_;
}

/// As many bytes as went into it, when the network has all of it.
int TlsSession::send_record(std::span<const std::byte> bytes) noexcept {
  ERR_clear_error();
  std::size_t written = 0;
  const int result = SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &written);
  under_way_ = result == 1 ? 0 : bytes.size();
  if (result != 1) {
    const int error = failure(result);
    return error == 0 ? -EPIPE : error;
  }
  if (++records_ == kRecordsOfKey) {
    records_ = 0;
    (void)SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);  // goes with the next record
  }
  return static_cast<int>(written);
}

int TlsSession::send(std::span<const std::byte> first, std::span<const std::byte> second) noexcept {
  if (end_) return *end_ == 0 ? -EPIPE : *end_;
  const std::size_t most = std::min<std::size_t>(first.size() + second.size(), INT_MAX - kRecord);
  std::array<std::byte, kRecord> both;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled as needed
  std::size_t done = 0;
  while (done < most) {
    const std::size_t size = under_way_ != 0 ? under_way_ : std::min(most - done, kRecord);
    if (size > most - done) return -EPROTO;  // not what it began with
    std::span<const std::byte> record;
    if (done < first.size() && size > first.size() - done) {
      const std::size_t of_first = first.size() - done;
      std::ranges::copy(first.subspan(done), both.begin());
      std::ranges::copy(second.first(size - of_first), both.begin() + static_cast<std::ptrdiff_t>(of_first));
      record = std::span(both).first(size);
    } else {
      record = done < first.size() ? first.subspan(done, size) : second.subspan(done - first.size(), size);
    }
    const int result = send_record(record);
    if (result < 0) return done != 0 && result == -EAGAIN ? static_cast<int>(done) : result;
    done += static_cast<std::size_t>(result);
  }
  return static_cast<int>(done);
}

int TlsSession::receive(std::span<std::byte> into) noexcept {
  if (end_) return *end_;
  const std::size_t most = std::min<std::size_t>(into.size(), INT_MAX);
  std::size_t done = 0;
  is_drained_ = false;
  while (done < most) {
    ERR_clear_error();
    std::size_t got = 0;
    const int result = SSL_read_ex(session_.get(), into.data() + done, most - done, &got);
    if (result != 1) {
      const int error = failure(result);
      is_drained_ = error == -EAGAIN;
      return done != 0 ? static_cast<int>(done) : error;
    }
    done += got;
  }
  return static_cast<int>(done);
}

Task<> encrypt(Socket& socket, const Secret& key, Role role) {
  auto session = std::make_unique<TlsSession>(socket.network(), socket.descriptor(), key, role);
  for (int state = session->go_on(); state != 0; state = session->go_on()) {
    if (state == SSL_ERROR_WANT_READ) {
      co_await socket.readable();
    } else if (state == SSL_ERROR_WANT_WRITE) {
      co_await socket.writable();
    } else {
      throw Error(ErrorKind::LinkFault,
                  fmt::format("encrypting the connection failed: {}", reason_of_openssl()));
    }
  }
  socket.protect(std::move(session));
}

}  // namespace

Task<> encrypt_as_client(Socket& socket, const Secret& key) { return encrypt(socket, key, Role::client); }
Task<> encrypt_as_server(Socket& socket, const Secret& key) { return encrypt(socket, key, Role::server); }

}  // namespace cohort
