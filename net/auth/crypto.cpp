// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/crypto.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <memory>
#include <string_view>

namespace cohort::crypto {
namespace {

template <auto Free>
struct Freed {
  void operator()(auto* object) const noexcept { Free(object); }
};

template <class T, auto Free>
using Owned = std::unique_ptr<T, Freed<Free>>;

[[noreturn]] void fail(std::string_view doing) {
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  throw Error(
      ErrorKind::Internal,
      fmt::format("OpenSSL failed at {}: {}; check the OpenSSL installation and its configuration file",
                  doing, reason.data()));
}

const unsigned char* in(Bytes bytes) noexcept { return reinterpret_cast<const unsigned char*>(bytes.data()); }
unsigned char* out(std::span<std::byte> bytes) noexcept {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

/// OpenSSL's parameter lists have no const; it only reads from these.
OSSL_PARAM octets(const char* name, Bytes bytes) noexcept {
  return OSSL_PARAM_construct_octet_string(name, const_cast<std::byte*>(bytes.data()), bytes.size());
}
OSSL_PARAM text(const char* name, const char* value) noexcept {
  return OSSL_PARAM_construct_utf8_string(name, const_cast<char*>(value), 0);
}

}  // namespace

Digest sha256(Bytes message) {
  Digest digest;
  if (EVP_Digest(message.data(), message.size(), out(digest), nullptr, EVP_sha256(), nullptr) != 1)
    fail("SHA-256");
  return digest;
}

Digest hmac_sha256(Bytes key, std::initializer_list<Bytes> parts) {
  static EVP_MAC* const mac = EVP_MAC_fetch(nullptr, OSSL_MAC_NAME_HMAC, nullptr);  // until the process ends
  const Owned<EVP_MAC_CTX, EVP_MAC_CTX_free> context(EVP_MAC_CTX_new(mac));
  const std::array<OSSL_PARAM, 2> parameters{text(OSSL_MAC_PARAM_DIGEST, "SHA256"),
                                             OSSL_PARAM_construct_end()};
  if (!context || EVP_MAC_init(context.get(), in(key), key.size(), parameters.data()) != 1)
    fail("HMAC-SHA256");
  for (const Bytes part : parts)
    if (EVP_MAC_update(context.get(), in(part), part.size()) != 1) fail("HMAC-SHA256");
  Digest digest;
  std::size_t size = 0;
  if (EVP_MAC_final(context.get(), out(digest), &size, digest.size()) != 1 || size != digest.size())
    fail("HMAC-SHA256");
  return digest;
}

void hkdf_sha256(Bytes secret, Bytes salt, Bytes info, std::span<std::byte> key) {
  static EVP_KDF* const kdf = EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr);  // until the process ends
  const Owned<EVP_KDF_CTX, EVP_KDF_CTX_free> context(EVP_KDF_CTX_new(kdf));
  const std::array<OSSL_PARAM, 5> parameters{
      text(OSSL_KDF_PARAM_DIGEST, "SHA256"), octets(OSSL_KDF_PARAM_KEY, secret),
      octets(OSSL_KDF_PARAM_SALT, salt), octets(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_construct_end()};
  if (!context || EVP_KDF_derive(context.get(), out(key), key.size(), parameters.data()) != 1)
    fail("HKDF-SHA256");
}

bool is_equal(Bytes a, Bytes b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void fill_random(std::span<std::byte> bytes) {
  if (RAND_bytes(out(bytes), static_cast<int>(bytes.size())) != 1) fail("drawing random bytes");
}

void wipe(std::span<std::byte> bytes) noexcept { OPENSSL_cleanse(bytes.data(), bytes.size()); }

}  // namespace cohort::crypto
