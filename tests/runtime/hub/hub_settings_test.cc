#include "runtime/hub/hub_settings.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;
using testing::Not;

common::Result<HubSettings> settings_of(const std::map<std::string, std::string>& env) {
  return read_hub_settings([&env](const std::string& name) -> std::optional<std::string> {
    const auto found = env.find(name);
    return found == env.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(HubSettingsTest, TheCacheIsWhereHuggingFaceHubHasIt) {
  const auto cache = [](const std::map<std::string, std::string>& env) {
    return settings_of(env)->cache;
  };
  EXPECT_EQ(cache({{"HOME", "/h"}}), "/h/.cache/huggingface/hub");
  EXPECT_EQ(cache({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}), "/x/huggingface/hub");
  EXPECT_EQ(cache({{"HOME", "/h"}, {"HF_HOME", "~/f"}}), "/h/f/hub");
  EXPECT_EQ(cache({{"HF_HOME", "/f"}, {"HF_HUB_CACHE", "/c"}}), "/c");
}

TEST(HubSettingsTest, WithoutAPlaceForTheCacheItSaysWhatToSet) {
  for (const std::map<std::string, std::string>& env :
       {std::map<std::string, std::string>{}, {{"HOME", "/"}}}) {
    const auto settings = settings_of(env);
    ASSERT_FALSE(settings);
    EXPECT_THAT(settings.error().hint, HasSubstr("HF_HOME"));
  }
}

TEST(HubSettingsTest, ATokenIsOfTheVariableOrOfAFile) {
  const TempFolder folder;
  write_text(folder / "token", " hf_file\n");
  const std::string home = folder.path();
  EXPECT_EQ(settings_of({{"HF_HOME", home}})->token, "hf_file");
  EXPECT_EQ(settings_of({{"HF_HOME", home}, {"HF_TOKEN", "hf_own\n"}})->token, "hf_own");
  EXPECT_EQ(settings_of({{"HF_HOME", "/none"}, {"HF_TOKEN_PATH", folder / "token"}})->token,
            "hf_file");
  EXPECT_EQ(settings_of({{"HF_HOME", "/none"}})->token, "");
  EXPECT_THAT(settings_of({{"HF_HOME", home}, {"HF_TOKEN_PATH", "/none"}}).error().message,
              HasSubstr("HF_TOKEN_PATH"));
}

TEST(HubSettingsTest, ATokenThatNoHeaderCarriesIsRefusedUnseen) {
  const auto settings = settings_of({{"HF_HOME", "/f"}, {"HF_TOKEN", "hf_a\r\nX: y"}});
  ASSERT_FALSE(settings);
  EXPECT_THAT(settings.error().message, Not(HasSubstr("hf_a")));
}

TEST(HubSettingsTest, OfflineIsSaidInManyWords) {
  for (const char* const yes : {"1", "true", "YES", "on"}) {
    EXPECT_TRUE(settings_of({{"HOME", "/h"}, {"HF_HUB_OFFLINE", yes}})->is_offline) << yes;
  }
  for (const char* const no : {"", "0", "false"}) {
    EXPECT_FALSE(settings_of({{"HOME", "/h"}, {"HF_HUB_OFFLINE", no}})->is_offline) << no;
  }
}

TEST(HubSettingsTest, AnEndpointIsAnAddress) {
  EXPECT_EQ(settings_of({{"HOME", "/h"}})->endpoint, "https://huggingface.co");
  EXPECT_EQ(settings_of({{"HOME", "/h"}, {"HF_ENDPOINT", "http://m:1/hf/"}})->endpoint,
            "http://m:1/hf");
  EXPECT_THAT(settings_of({{"HOME", "/h"}, {"HF_ENDPOINT", "mirror"}}).error().message,
              HasSubstr("HF_ENDPOINT"));
}

TEST(HubSettingsTest, ProxiesAreThoseOfTheEnvironment) {
  const ProxySettings proxies =
      settings_of({{"HOME", "/h"}, {"HTTPS_PROXY", "proxy:3128"}, {"NO_PROXY", "mirror, .intern"}})
          ->proxies;
  const auto port = [&proxies](const char* url) {
    const std::optional<Url> proxy = proxy_for(proxies, parse_url(url).value());
    return proxy ? proxy->port : 0;
  };
  EXPECT_EQ(port("https://huggingface.co"), 3128);
  EXPECT_EQ(port("http://huggingface.co"), 0);
  EXPECT_EQ(port("https://mirror"), 0);
  EXPECT_EQ(port("https://a.intern"), 0);
  EXPECT_EQ(port("https://notmirror"), 3128);
  EXPECT_EQ(port("https://127.0.0.1:5"), 0);
  EXPECT_THAT(settings_of({{"HOME", "/h"}, {"HTTPS_PROXY", "socks5://p:1"}}).error().message,
              HasSubstr("HTTPS_PROXY"));
}

}  // namespace
}  // namespace lockstep::runtime
