// The store at which ranks meet: sound clients, clients that are none, a store that goes or stops.
#include "runtime/comm/key_store.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/tcp_endpoint.h"
#include "runtime/common/loopback_port.h"
#include "tests/runtime/comm/rank_threads.h"

namespace lockstep::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

Clock::time_point generous() {
  return Clock::now() + kGenerousTimeout;
}
Clock::time_point now() {
  return Clock::now();
}

class KeyStoreTest : public testing::Test {
 protected:
  int dial() const { return dial_listener("127.0.0.1", port_.number(), generous()).value().fd; }
  std::unique_ptr<KeyClient> client() const { return std::make_unique<KeyClient>(dial()); }

  common::LoopbackPort port_;
  std::unique_ptr<KeyServer> server_ =
      std::make_unique<KeyServer>(listen_as_master("127.0.0.1", port_.number()).fd);
};

TEST_F(KeyStoreTest, GivesWhatWasSet) {
  const auto one = client();
  const auto other = client();
  const std::string bytes("\0\xff\n key", 7);
  one->set("bytes", bytes, generous());
  one->set("empty", "", generous());
  one->set("large", std::string(3'000'000, 'x'), generous());
  EXPECT_EQ(other->get("bytes", now()), bytes);
  EXPECT_EQ(other->get("empty", now()), "");
  EXPECT_EQ(other->get("large", now()), std::string(3'000'000, 'x'));
  EXPECT_EQ(other->get("none", now()), std::nullopt);
  one->set("empty", "no more", generous());
  EXPECT_EQ(other->get("empty", now()), "no more");
}

TEST_F(KeyStoreTest, PrefixesKeepGroupsApart) {
  const KeyStore all(nullptr, client(), "attempt-1/");
  all.under("gloo").set("0", "inside", generous());
  all.set("0", "outside", generous());
  EXPECT_EQ(all.under("gloo").get("0", now()), "inside");
  EXPECT_EQ(all.get("gloo/0", now()), "inside");
  EXPECT_EQ(KeyStore(nullptr, client(), "attempt-2/").get("0", now()), std::nullopt);
}

TEST_F(KeyStoreTest, WhoWaitsHearsOfTheValueOnceItIsSet) {
  constexpr int kNumRanks = 16;
  std::atomic<int> num_heard{0};
  run_ranks(kNumRanks, [&](int rank) {
    const auto own = client();
    own->set("joined/" + std::to_string(rank), std::to_string(rank), generous());
    for (int other = 0; other < kNumRanks; ++other) {
      const auto told = own->get("joined/" + std::to_string(other), generous());
      if (told == std::to_string(other)) ++num_heard;
    }
  });
  EXPECT_EQ(num_heard, kNumRanks * kNumRanks);
}

TEST_F(KeyStoreTest, AWaitEndsAtItsDeadlineAndTheConnectionGoesOn) {
  const auto own = client();
  EXPECT_EQ(own->get("never", now() + std::chrono::milliseconds(30)), std::nullopt);
  own->set("later", "yes", generous());
  EXPECT_EQ(own->get("later", now()), "yes");
}

TEST_F(KeyStoreTest, HangsUpOnWhoDoesNotSpeakItsLanguage) {
  std::string too_long = std::string(kKeyMagic) + "s";
  for (const uint32_t number : {0U, kMaxKeyBytes + 1, 0U}) append_number(too_long, number);
  std::string no_verb = std::string(kKeyMagic) + "x";
  for (int i = 0; i < 3; ++i) append_number(no_verb, 0);
  std::string impatient = std::string(kKeyMagic);
  for (int i = 0; i < 2; ++i) {
    impatient += "g";
    append_number(impatient, 60'000);
    append_number(impatient, 1);
    append_number(impatient, 0);
    impatient += "k";
  }
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\n\r\n"), too_long, no_verb, impatient}) {
    const int fd = dial();
    ASSERT_EQ(send(fd, words.data(), words.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(words.size()));
    char byte = 0;
    while (recv(fd, &byte, 1, 0) < 0 && errno == EAGAIN) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    close(fd);
  }
  client()->set("a rank", "is served all the same", generous());
  EXPECT_THROW(client()->set(std::string(kMaxKeyBytes + 1, 'k'), "", generous()),
               std::invalid_argument);
}

TEST_F(KeyStoreTest, AStoreThatIsGoneIsLostToAllWhoWait) {
  std::atomic<int> num_lost{0};
  std::vector<std::unique_ptr<KeyClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(client());
    clients.back()->set("here", "yes", generous());
  }
  {
    std::vector<std::jthread> waiting;
    for (auto& own : clients) {
      waiting.emplace_back([&num_lost, &own] {
        try {
          own->get("never", generous());
        } catch (const KeyStoreSilentError&) {
        } catch (const KeyStoreLostError&) {
          ++num_lost;
        }
      });
    }
    server_.reset();
  }
  EXPECT_EQ(num_lost, 4);
  EXPECT_THROW(clients.front()->set("here", "again", generous()), KeyStoreLostError);
}

TEST_F(KeyStoreTest, AStoreThatDoesNotAnswerIsSilent) {
  const common::LoopbackPort port;
  const TcpSocket stopped = listen_as_master("127.0.0.1", port.number());
  KeyClient own(dial_listener("127.0.0.1", port.number(), generous()).value().fd);
  try {
    own.set("key", "value", now());
    FAIL() << "nobody answered";
  } catch (const KeyStoreSilentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("timed out"));  // what the ranks of a group look for
  }
  EXPECT_THROW(own.get("key", now()), KeyStoreLostError);
  close(stopped.fd);
}

}  // namespace
}  // namespace lockstep::runtime
