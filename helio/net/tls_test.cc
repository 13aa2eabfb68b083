// SPDX-License-Identifier: Apache-2.0
// TLS: sessions fed by hand, and sockets of both engines.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>

#include "helio/base/clock.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "helio/net/socket.h"
#include "helio/net/tls_testing.h"
#include "helio/proactor/proactor_pool.h"

namespace helio {
namespace {

using testing::HasSubstr;
using Status = TlsSession::Status;

class TlsFixture {
 public:
  TlsFixture() { certificates_.Make("server"); }

  std::shared_ptr<const TlsContext> Server(TlsOptions options = {}) {
    options.cert_file = certificates_.cert("server");
    options.key_file = certificates_.key("server");
    options.peer_check = TlsOptions::PeerCheck::kNone;
    return Make(TlsContext::Side::kServer, options);
  }
  std::shared_ptr<const TlsContext> Client(const std::string& protocols = "") {
    TlsOptions options;
    options.ca_cert_file = certificates_.cert("server");
    options.protocols = protocols;
    return Make(TlsContext::Side::kClient, options);
  }
  static std::shared_ptr<const TlsContext> Make(TlsContext::Side side, const TlsOptions& options) {
    std::string error;
    auto context = TlsContext::Make(side, options, &error);
    CHECK(context != nullptr) << error;
    return context;
  }
  static std::string ErrorOf(const TlsOptions& options) {
    std::string error;
    EXPECT_EQ(TlsContext::Make(TlsContext::Side::kServer, options, &error), nullptr);
    return error;
  }

 protected:
  TestCertificates certificates_;
};

// --- Sessions ---

class TlsSessionTest : public testing::Test, public TlsFixture {
 protected:
  // Brings what one side has to say to the other, `step` bytes at a time. False: it failed.
  static bool Bring(TlsSession* from, TlsSession* to, size_t step) {
    std::string bytes(from->output().view());
    from->output().Clear();
    for (size_t i = 0; i < bytes.size(); i += step) {
      to->Feed(std::string_view(bytes).substr(i, step));
      if (!to->is_established() && to->Handshake() == Status::kFailed) return false;
      if (!to->is_established()) continue;
      char buffer[100];
      size_t size = 0;
      if (to->Read(buffer, sizeof(buffer), &size) == Status::kFailed) return false;
    }
    return true;
  }
};

TEST_F(TlsSessionTest, HandshakesByteByByte) {
  for (const char* protocol : {"TLSv1.2", "TLSv1.3"}) {
    const auto server = Server()->NewSession();
    const auto client = Client(protocol)->NewSession();
    EXPECT_EQ(client->Handshake(), Status::kNeedsInput);
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(Bring(client.get(), server.get(), 1)) << server->error();
      ASSERT_TRUE(Bring(server.get(), client.get(), 1)) << client->error();
    }
    ASSERT_TRUE(server->is_established());
    ASSERT_TRUE(client->is_established());
    EXPECT_EQ(server->protocol(), protocol);
    EXPECT_FALSE(server->cipher().empty());

    EXPECT_EQ(client->Write("hello"), Status::kDone);
    client->Shutdown();
    server->Feed(client->output().view());
    char buffer[100];
    size_t size = 0;
    EXPECT_EQ(server->Read(buffer, sizeof(buffer), &size), Status::kDone);
    EXPECT_EQ(std::string_view(buffer, size), "hello");
    EXPECT_EQ(server->Read(buffer, sizeof(buffer), &size), Status::kEnd);
  }
}

// As a text of C the name would be "alice".
TEST_F(TlsSessionTest, ACommonNameWithANulInItNamesNobody) {
  const std::string names[] = {"alice", std::string("alice\0.example", 14)};
  for (const std::string& name : names) {
    certificates_.Make("client", nullptr, name);
    TlsOptions server_options;
    server_options.cert_file = certificates_.cert("server");
    server_options.key_file = certificates_.key("server");
    server_options.ca_cert_file = certificates_.cert("client");
    const auto server = Make(TlsContext::Side::kServer, server_options)->NewSession();
    TlsOptions client_options;
    client_options.cert_file = certificates_.cert("client");
    client_options.key_file = certificates_.key("client");
    client_options.ca_cert_file = certificates_.cert("server");
    const auto client = Make(TlsContext::Side::kClient, client_options)->NewSession();
    EXPECT_EQ(client->Handshake(), Status::kNeedsInput);
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(Bring(client.get(), server.get(), 1000)) << server->error();
      ASSERT_TRUE(Bring(server.get(), client.get(), 1000)) << client->error();
    }
    ASSERT_TRUE(server->has_peer_certificate());
    const auto known = server->PeerNames(TlsNameField::kCommonName);
    EXPECT_EQ(known,
              name == "alice" ? std::vector<std::string>{"alice"} : std::vector<std::string>());
  }
}

TEST_F(TlsSessionTest, AServerIsToldItsNameButNoAddress) {
  const auto context = Client();
  for (const std::string host : {"primary.example", "10.0.0.1", "fe80::1%eth0", ""}) {
    const auto client = context->NewSession(host);
    EXPECT_EQ(client->Handshake(), Status::kNeedsInput);
    const bool is_told = !host.empty() && client->output().view().find(host) != std::string::npos;
    EXPECT_EQ(is_told, host == "primary.example") << host;
  }
}

TEST_F(TlsSessionTest, WhatIsNoTlsFails) {
  const auto context = Server();
  const auto plain = context->NewSession();
  plain->Feed("*1\r\n$4\r\nPING\r\n");
  EXPECT_EQ(plain->Handshake(), Status::kFailed);
  EXPECT_THAT(plain->error(), HasSubstr("expects TLS"));
  const auto http = context->NewSession();
  http->Feed("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(http->Handshake(), Status::kFailed);
  EXPECT_THAT(http->error(), HasSubstr("expects TLS"));
}

// Random bytes, and a good handshake with some bytes changed: fails or waits, in bounded memory.
TEST_F(TlsSessionTest, NonsenseNeitherSucceedsNorGrows) {
  Random random(TestSeed());
  const auto context = Server();
  const auto clients = Client();
  for (int i = 0; i < 2000; ++i) {
    const auto session = context->NewSession();
    const auto client = clients->NewSession();
    (void)client->Handshake();
    std::string bytes(client->output().view());
    const size_t intact = random.OneIn(3) ? 0 : random.Uniform(bytes.size());
    for (size_t at = intact; at < bytes.size(); ++at) {
      if (intact == 0 || random.OneIn(20)) bytes[at] = static_cast<char>(random.Next());
    }
    bytes.resize(bytes.size() + random.Uniform(500), 'x');
    session->Feed(bytes);
    EXPECT_NE(session->Handshake(), Status::kDone);
    EXPECT_LT(session->output().size(), 20'000u);
  }
}

TEST_F(TlsSessionTest, AChangedRecordFails) {
  const auto server = Server()->NewSession();
  const auto client = Client()->NewSession();
  (void)client->Handshake();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(Bring(client.get(), server.get(), 1000));
    ASSERT_TRUE(Bring(server.get(), client.get(), 1000));
  }
  ASSERT_EQ(client->Write("hello"), Status::kDone);
  std::string bytes(client->output().view());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  server->Feed(bytes);
  char buffer[100];
  size_t size = 0;
  EXPECT_EQ(server->Read(buffer, sizeof(buffer), &size), Status::kFailed);
  EXPECT_THAT(server->error(), HasSubstr("bad record mac"));
}

TEST_F(TlsSessionTest, ContextsTellWhatIsWrong) {
  certificates_.Make("other");
  certificates_.Make("secret", "sesame");
  TlsOptions options;
  options.peer_check = TlsOptions::PeerCheck::kNone;
  options.cert_file = "/nowhere";
  options.key_file = certificates_.key("server");
  EXPECT_EQ(ErrorOf(options), "cannot load the certificate /nowhere: No such file or directory");
  options.cert_file = certificates_.cert("server");
  options.key_file = certificates_.key("other");
  EXPECT_THAT(ErrorOf(options), HasSubstr("key values mismatch"));
  options.cert_file = certificates_.cert("secret");
  options.key_file = certificates_.key("secret");
  EXPECT_THAT(ErrorOf(options), HasSubstr("cannot load the private key"));
  options.key_file_pass = "wrong";
  EXPECT_THAT(ErrorOf(options), HasSubstr("cannot load the private key"));
  options.key_file_pass = "sesame";
  Make(TlsContext::Side::kServer, options);
  options.protocols = "TLSv1.2 SSLv9";
  EXPECT_THAT(ErrorOf(options), HasSubstr("unknown protocol 'sslv9'"));
  options.protocols = "";
  options.ciphers = "nonsense";
  EXPECT_THAT(ErrorOf(options), HasSubstr("cannot use the ciphers 'nonsense'"));
  options.ciphers = "";
  options.ciphersuites = "nonsense";
  EXPECT_THAT(ErrorOf(options), HasSubstr("cannot use the ciphersuites 'nonsense'"));
  options.ciphersuites = "";
  options.dh_params_file = certificates_.key("server");
  EXPECT_THAT(ErrorOf(options), HasSubstr("cannot use the DH parameters"));
  options.dh_params_file = "";
  options.peer_check = TlsOptions::PeerCheck::kRequired;
  EXPECT_THAT(ErrorOf(options), HasSubstr("without those of a CA"));
  options.ca_cert_file = "/nowhere";
  EXPECT_THAT(ErrorOf(options), HasSubstr("cannot load the CA certificates /nowhere"));
}

// --- Sockets ---

// Sends back what it receives, and moves between threads again and again. Not while it sends, as
// connections do not.
class Echo final : public Socket::Handler {
 public:
  Echo(ProactorPool* pool, int fd, std::unique_ptr<TlsSession> tls, uint64_t seed)
      : pool_(*pool), random_(seed) {
    Settle(fd, std::move(tls));
  }

  void OnRecv(std::string_view data) override {
    waiting_ += data;
    if (!sends_ && !detaching_) Continue();
  }
  void OnRecvEnd(int error) override {
    error_ = error;
    ended_ = true;
    if (!sends_) socket_->Close();
  }
  void OnSent(int error) override {
    sends_ = false;
    if (error == 0 && !ended_) return Continue();
    socket_->Close();
  }
  void OnDetached() override {
    const int fd = socket_->fd();
    auto tls = std::make_shared<std::unique_ptr<TlsSession>>(socket_->TakeTls());
    socket_.reset();
    ++moves_;
    const auto next = static_cast<uint32_t>(random_.Uniform(pool_.size()));
    pool_.at(next)->Dispatch([this, fd, tls] { Settle(fd, std::move(*tls)); });
  }
  void OnClosed() override { closed_.set_value(); }

  void AwaitEnd() { closed_.get_future().wait(); }
  int error() const { return error_; }
  int moves() const { return moves_; }

 private:
  void Settle(int fd, std::unique_ptr<TlsSession> tls) {
    detaching_ = false;
    socket_ = Socket::Adopt(Proactor::Current(), fd, this, std::move(tls));
    socket_->StartRecv();
    Continue();
  }

  void Continue() {
    while (!waiting_.empty() && !ended_) {
      sending_.swap(waiting_);
      waiting_.clear();
      const auto mode = random_.OneIn(2) ? Socket::SendMode::kNow : Socket::SendMode::kBatch;
      switch (socket_->Send(sending_, mode)) {
        case Socket::SendResult::kDone:
          break;
        case Socket::SendResult::kPending:
          sends_ = true;
          return;
        case Socket::SendResult::kBroken:
          return;
      }
    }
    if (ended_) return;
    if (random_.OneIn(4)) {
      socket_->StopRecv();
      socket_->StartRecv();
    } else if (random_.OneIn(2)) {
      if (random_.OneIn(2)) socket_->StopRecv();
      detaching_ = true;
      socket_->Detach();
    }
  }

  ProactorPool& pool_;
  Random random_;
  std::unique_ptr<Socket> socket_;
  std::string waiting_;
  std::string sending_;
  bool sends_ = false;
  bool detaching_ = false;
  bool ended_ = false;
  int error_ = -1;
  int moves_ = 0;
  std::promise<void> closed_;
};

// Only says how it ended.
struct Silent final : Socket::Handler {
  void OnRecv(std::string_view) override {}
  void OnRecvEnd(int why) override {
    error = why;
    socket->Close();
  }
  void OnSent(int) override {}
  void OnClosed() override { closed.set_value(); }

  std::unique_ptr<Socket> socket;
  int error = -1;
  std::promise<void> closed;
};

class TlsSocketTest : public testing::TestWithParam<bool>, public TlsFixture {
 protected:
  void SetUp() override {
    pool_ = std::make_unique<ProactorPool>(
        ProactorPool::Options{.threads = 3, .force_epoll = GetParam()});
    pool_->Start();
  }
  void TearDown() override { pool_->Stop(); }

  // A client's end, which blocks, and the server's.
  static std::pair<int, int> Pair() {
    int fds[2];
    PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    PCHECK(fcntl(fds[1], F_SETFL, O_NONBLOCK) == 0);
    return {fds[0], fds[1]};
  }

  void Adopt(Silent* handler, int fd, std::unique_ptr<TlsSession> tls) {
    pool_->at(0)->Await([&] {
      handler->socket = Socket::Adopt(Proactor::Current(), fd, handler, std::move(tls));
      handler->socket->StartRecv();
    });
  }
  TlsStats Stats() {
    return pool_->at(0)->Await([] { return ThreadTlsStats(); });
  }

  std::unique_ptr<ProactorPool> pool_;
};

INSTANTIATE_TEST_SUITE_P(Engines, TlsSocketTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "epoll" : "io_uring");
});

// Says a text, and keeps what it is answered; both ends are sockets of ours.
struct Speaker final : Socket::Handler {
  explicit Speaker(std::string text) : said(std::move(text)) {}

  void Begin(int fd, std::unique_ptr<TlsSession> tls) {
    socket = Socket::Adopt(Proactor::Current(), fd, this, std::move(tls));
    EXPECT_EQ(socket->TlsTrouble(), "the handshake is not over");
    socket->StartRecv();
    // Before the handshake: it waits for that.
    EXPECT_EQ(socket->Send(said, Socket::SendMode::kNow), Socket::SendResult::kPending);
  }
  void OnRecv(std::string_view data) override {
    heard += data;
    if (heard.size() == said.size()) socket->Close();
  }
  void OnRecvEnd(int why) override {
    error = why;
    trouble = socket->TlsTrouble();
    socket->Close();
  }
  void OnSent(int) override {}
  void OnClosed() override { closed.set_value(); }

  const std::string said;
  std::string heard;
  std::unique_ptr<Socket> socket;
  int error = 0;
  std::string trouble;
  std::promise<void> closed;
};

// OpenSSL's own blocking client.
class BlockingClient {
 public:
  explicit BlockingClient(int fd, int version = 0) : fd_(fd) {
    context_ = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(context_, version);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd);
    CHECK_EQ(SSL_connect(ssl_), 1);
  }
  ~BlockingClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    close(fd_);
  }
  SSL* ssl() const { return ssl_; }
  // False: the connection is broken.
  bool Write(std::string_view bytes) const {
    return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) ==
           static_cast<int>(bytes.size());
  }
  std::string Read(size_t count) const {
    std::string got(count, '\0');
    size_t filled = 0;
    while (filled < count) {
      const int size = SSL_read(ssl_, got.data() + filled, static_cast<int>(count - filled));
      if (size <= 0) break;
      filled += static_cast<size_t>(size);
    }
    got.resize(filled);
    return got;
  }

 private:
  const int fd_;
  SSL_CTX* context_;
  SSL* ssl_;
};

TEST_P(TlsSocketTest, NoByteIsLostOnTheWayBetweenThreads) {
  const auto context = Server();
  for (int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const uint64_t seed = TestSeed() + static_cast<uint64_t>(version);
    Random random(seed);
    const auto [fd, server_fd] = Pair();
    std::unique_ptr<Echo> echo;
    pool_->at(0)->Await([&, server_fd = server_fd] {
      echo = std::make_unique<Echo>(pool_.get(), server_fd, context->NewSession(), seed);
    });
    {
      const BlockingClient client(fd, version);
      for (int i = 0; i < 300; ++i) {
        std::string piece(1 + random.Uniform(random.OneIn(20) ? 3'000'000 : 3000), '\0');
        for (char& byte : piece) byte = static_cast<char>(random.Next());
        ASSERT_TRUE(client.Write(piece));  // the echo keeps what we do not read yet
        ASSERT_TRUE(client.Read(piece.size()) == piece) << "seed " << seed;
      }
      SSL_shutdown(client.ssl());
    }
    echo->AwaitEnd();
    EXPECT_EQ(echo->error(), 0);
    EXPECT_GT(echo->moves(), 10);
  }
}

TEST_P(TlsSocketTest, AClientBeginsTheHandshakeAndIsAnswered) {
  for (const std::string protocols : {"TLSv1.2", "TLSv1.3"}) {
    const auto [fd, server_fd] = Pair();
    PCHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    const uint64_t seed = TestSeed();
    const auto context = Server();
    Speaker client(std::string(5'000'000, 'x'));
    const TlsStats before = Stats();
    std::unique_ptr<Echo> echo;
    pool_->at(0)->Await([&, fd = fd, server_fd = server_fd] {
      echo = std::make_unique<Echo>(pool_.get(), server_fd, context->NewSession(), seed);
      client.Begin(fd, Client(protocols)->NewSession("localhost"));
    });
    client.closed.get_future().wait();
    echo->AwaitEnd();
    EXPECT_TRUE(client.heard == client.said);
    EXPECT_EQ(client.error, 0);
    EXPECT_LE(Stats().handshakes, before.handshakes + 1);  // only the server's, which may move
    pool_->at(0)->Await([&] { client.socket.reset(); });
  }
}

TEST_P(TlsSocketTest, AClientIsToldWhyItTrustsNobodyAndNothingIsCounted) {
  certificates_.Make("stranger");
  TlsOptions options;
  options.ca_cert_file = certificates_.cert("stranger");
  const auto context = Make(TlsContext::Side::kClient, options);
  const auto [fd, server_fd] = Pair();
  PCHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  Speaker client("request");
  Silent server;
  const TlsStats before = Stats();
  Adopt(&server, server_fd, Server()->NewSession());
  pool_->at(0)->Await([&, fd = fd] { client.Begin(fd, context->NewSession()); });
  client.closed.get_future().wait();
  server.closed.get_future().wait();
  EXPECT_EQ(client.error, EPROTO);
  EXPECT_THAT(client.trouble, HasSubstr("certificate verify failed"));
  EXPECT_EQ(Stats().handshake_failures, before.handshake_failures + 1);  // the server's
  pool_->at(0)->Await([&] {
    client.socket.reset();
    server.socket.reset();
  });
}

TEST_P(TlsSocketTest, AClientIsToldThatTheOtherSideSpeaksNoTls) {
  const auto [fd, server_fd] = Pair();
  PCHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  Speaker client("request");
  pool_->at(0)->Await([&, fd = fd] { client.Begin(fd, Client()->NewSession()); });
  PCHECK(write(server_fd, "-ERR what is that?\r\n", 20) == 20);
  client.closed.get_future().wait();
  close(server_fd);
  EXPECT_EQ(client.error, EPROTO);
  EXPECT_THAT(client.trouble, HasSubstr("the peer does not speak TLS"));
  pool_->at(0)->Await([&] { client.socket.reset(); });
}

TEST_P(TlsSocketTest, AHandshakeThatNeverEndsIsEndedAndCounted) {
  TlsOptions options;
  options.handshake_timeout_ms = 50;
  const auto context = Server(options);
  for (const std::string_view sent : {std::string_view(), std::string_view("\x16\x03\x01")}) {
    const auto [fd, server_fd] = Pair();
    const TlsStats before = Stats();
    Silent server;
    Adopt(&server, server_fd, context->NewSession());
    if (!sent.empty()) {
      ASSERT_EQ(send(fd, sent.data(), sent.size(), 0), static_cast<ssize_t>(sent.size()));
    }
    server.closed.get_future().wait();
    EXPECT_EQ(server.error, ETIMEDOUT);
    EXPECT_EQ(Stats().handshake_timeouts, before.handshake_timeouts + 1);
    EXPECT_EQ(Stats().handshake_failures, before.handshake_failures + 1);
    pool_->at(0)->Await([&] { server.socket.reset(); });
    close(fd);
  }
}

TEST_P(TlsSocketTest, WhatIsNoHandshakeIsRefused) {
  const auto context = Server();
  const std::string_view broken("\x16\x03\x01\x00\x05hello", 10);  // a record with nonsense
  for (const std::string_view bytes : {std::string_view("PING\r\n"), broken}) {
    const auto [fd, server_fd] = Pair();
    const TlsStats before = Stats();
    Silent server;
    Adopt(&server, server_fd, context->NewSession());
    ASSERT_EQ(send(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    server.closed.get_future().wait();
    EXPECT_EQ(server.error, EPROTO);
    char answer[100];
    const ssize_t size = recv(fd, answer, sizeof(answer), 0);
    if (bytes == broken) {
      ASSERT_GT(size, 0);
      EXPECT_EQ(answer[0], 21);  // an alert's record
    } else {
      EXPECT_EQ(size, 0);  // who does not speak TLS does not understand alerts
    }
    EXPECT_EQ(Stats().handshake_failures, before.handshake_failures + 1);
    pool_->at(0)->Await([&] { server.socket.reset(); });
    close(fd);
  }
}

TEST_P(TlsSocketTest, AfterTheEndOfTheClientItsRepliesStillCome) {
  struct LateReply final : Socket::Handler {
    void OnRecv(std::string_view data) override { got += data; }
    void OnRecvEnd(int why) override {
      error = why;
      EXPECT_EQ(socket->Send("late reply", Socket::SendMode::kNow), Socket::SendResult::kDone);
      socket->Close();
    }
    void OnSent(int) override {}
    void OnClosed() override { closed.set_value(); }
    std::unique_ptr<Socket> socket;
    std::string got;
    int error = -1;
    std::promise<void> closed;
  };
  const auto context = Server();
  const auto [fd, server_fd] = Pair();
  LateReply server;
  pool_->at(0)->Await([&, server_fd = server_fd] {
    server.socket = Socket::Adopt(Proactor::Current(), server_fd, &server, context->NewSession());
    server.socket->StartRecv();
  });
  {
    const BlockingClient client(fd);
    ASSERT_TRUE(client.Write("request"));
    SSL_shutdown(client.ssl());
    EXPECT_EQ(client.Read(10), "late reply");
    // And then the server's close_notify, not just the end of the stream.
    char rest;
    const int size = SSL_read(client.ssl(), &rest, 1);
    EXPECT_EQ(SSL_get_error(client.ssl(), size), SSL_ERROR_ZERO_RETURN);
  }
  server.closed.get_future().wait();
  EXPECT_EQ(server.got, "request");
  EXPECT_EQ(server.error, 0);
  pool_->at(0)->Await([&] { server.socket.reset(); });
}

// A peer that asks for one key update after another and reads none of the answers.
TEST_P(TlsSocketTest, AnswersThatNobodyReadsAreBounded) {
  const auto context = Server();
  const auto [fd, server_fd] = Pair();
  Silent server;
  Adopt(&server, server_fd, context->NewSession());
  signal(SIGPIPE, SIG_IGN);
  {
    const BlockingClient client(fd);
    bool is_alive = true;
    for (int i = 0; i < 1'000'000 && is_alive; ++i) {
      is_alive = SSL_key_update(client.ssl(), SSL_KEY_UPDATE_REQUESTED) == 1 &&
                 SSL_do_handshake(client.ssl()) == 1;
    }
    EXPECT_FALSE(is_alive);
    server.closed.get_future().wait();
  }
  EXPECT_EQ(server.error, EPROTO);
  pool_->at(0)->Await([&] { server.socket.reset(); });
}

TEST_P(TlsSocketTest, ClosesInAnyMoment) {
  Random random(TestSeed());
  const auto context = Server();
  for (int i = 0; i < 100; ++i) {
    const auto [fd, server_fd] = Pair();
    Silent server;
    Adopt(&server, server_fd, context->NewSession());
    std::thread client([fd = fd] {
      SSL_CTX* const made = SSL_CTX_new(TLS_client_method());
      SSL* const ssl = SSL_new(made);
      SSL_set_fd(ssl, fd);
      if (SSL_connect(ssl) == 1) (void)SSL_write(ssl, "x", 1);
      SSL_free(ssl);
      SSL_CTX_free(made);
    });
    pool_->at(0)->AwaitFiber("close", [&] {
      this_fiber::SleepUntil(MonotonicNanos() + random.Uniform(3'000'000));
      if (server.error == -1) server.socket->Close();
    });
    server.closed.get_future().wait();
    client.join();
    pool_->at(0)->Await([&] { server.socket.reset(); });
    close(fd);
  }
}

}  // namespace
}  // namespace helio
