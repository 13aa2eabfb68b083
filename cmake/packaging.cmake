# SPDX-License-Identifier: Apache-2.0
# The Debian package: cmake --build build/release --target package (tools/package.sh does all).
include(GNUInstallDirs)
install(TARGETS dragonfly dfly_bench RUNTIME DESTINATION /usr/bin)
# Debug information is most of a program; names of functions stay, for reports of crashes.
install(CODE "execute_process(COMMAND strip --strip-debug
  \$ENV{DESTDIR}/usr/bin/dragonfly \$ENV{DESTDIR}/usr/bin/dfly_bench)")
install(FILES packaging/dragonfly.service DESTINATION /lib/systemd/system)
install(FILES packaging/dragonfly.conf DESTINATION /etc/dragonfly)
install(FILES packaging/logrotate DESTINATION /etc/logrotate.d RENAME dragonfly)
install(FILES LICENSE README.md DESTINATION /usr/share/doc/dragonfly)
install(DIRECTORY docs/ DESTINATION /usr/share/doc/dragonfly FILES_MATCHING PATTERN "*.md")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dragonfly)
set(CPACK_PACKAGE_CONTACT "the dragonfly founders <founders@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "multi-threaded in-memory store that speaks the Redis protocol")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION database)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS passwd)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "logrotate, procps")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/packaging/postinst ${CMAKE_SOURCE_DIR}/packaging/prerm
  ${CMAKE_SOURCE_DIR}/packaging/postrm ${CMAKE_SOURCE_DIR}/packaging/conffiles)
include(CPack)
