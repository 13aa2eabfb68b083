// SPDX-License-Identifier: Apache-2.0
// Certificates for tests, in files of a folder of their own.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "helio/base/logging.h"

namespace helio {

// Each certificate that Make makes signs itself, so that it is its own CA.
class TestCertificates {
 public:
  TestCertificates() {
    char name[] = "/tmp/tls-test-XXXXXX";
    CHECK(mkdtemp(name) != nullptr);
    folder_ = name;
  }
  ~TestCertificates() { std::filesystem::remove_all(folder_); }
  TestCertificates(const TestCertificates&) = delete;
  TestCertificates& operator=(const TestCertificates&) = delete;

  std::string cert(const std::string& name) const { return folder_ + "/" + name + ".crt"; }
  std::string key(const std::string& name) const { return folder_ + "/" + name + ".key"; }

  // With that common name, if there is one, which may have any bytes; else with `name`.
  void Make(const std::string& name, const char* passphrase = nullptr,
            const std::string& common_name = "") const {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_pair(EVP_EC_gen("P-256"),
                                                                       EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> x509(X509_new(), X509_free);
    X509_set_version(x509.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x509.get()), 3600);
    X509_set_pubkey(x509.get(), key_pair.get());
    X509_NAME* const subject = X509_get_subject_name(x509.get());
    const std::string& subject_name = common_name.empty() ? name : common_name;
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(subject_name.data()),
                               static_cast<int>(subject_name.size()), -1, 0);
    X509_set_issuer_name(x509.get(), subject);
    X509_sign(x509.get(), key_pair.get(), EVP_sha256());
    Write(cert(name), [&](FILE* file) { PEM_write_X509(file, x509.get()); });
    Write(key(name), [&](FILE* file) {
      PEM_write_PrivateKey(file, key_pair.get(),
                           passphrase == nullptr ? nullptr : EVP_aes_128_cbc(), nullptr, 0, nullptr,
                           const_cast<char*>(passphrase));
    });
  }

 private:
  template <typename Function>
  static void Write(const std::string& path, Function function) {
    FILE* const file = fopen(path.c_str(), "w");
    CHECK(file != nullptr) << path;
    function(file);
    fclose(file);
  }

  std::string folder_;
};

}  // namespace helio
