# Runs while `cmake --install` (or CPack) does, with the prefix of that moment: what depends on it. Needs `source` and
# `binary`, the folders of the sources and of the build, and `version` and `maintainer` of the package.
#
# With the prefix /usr files follow Debian: configuration in /etc, zsh's completions where Debian looks for them.
set(prefix ${CMAKE_INSTALL_PREFIX})
if(prefix STREQUAL "/usr")
  set(sysconfdir /etc)
  set(zsh share/zsh/vendor-completions)
else()
  set(sysconfdir ${prefix}/etc)
  set(zsh share/zsh/site-functions)
endif()
set(bindir ${prefix}/bin)
set(docdir ${prefix}/share/doc/tandem)

# file(INSTALL) honours DESTDIR.
configure_file(${source}/packaging/systemd/tandem.service.in ${binary}/packaging/tandem.service @ONLY)
file(INSTALL ${binary}/packaging/tandem.service DESTINATION ${prefix}/lib/systemd/system)
file(INSTALL ${source}/packaging/completions/_tandem DESTINATION ${prefix}/${zsh})

# Pages and changelogs are compressed where they are read by programs that expect it.
find_program(gzip_program gzip)
function(install_compressed file name destination)
  if(NOT gzip_program)
    file(INSTALL ${file} DESTINATION ${destination} RENAME ${name})
    return()
  endif()
  execute_process(COMMAND ${gzip_program} -9nc ${file} OUTPUT_FILE ${binary}/packaging/${name}.gz COMMAND_ERROR_IS_FATAL ANY)
  file(INSTALL ${binary}/packaging/${name}.gz DESTINATION ${destination})
endfunction()
install_compressed(${source}/packaging/man/tandem.1 tandem.1 ${prefix}/share/man/man1)
install_compressed(${source}/CHANGELOG.md CHANGELOG.md ${docdir})

# Debian's own changelog is in a format of its own; its date is SOURCE_DATE_EPOCH where that is set.
if(prefix STREQUAL "/usr")
  string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
  file(WRITE ${binary}/packaging/changelog.Debian
       "tandem (${version}) unstable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- ${maintainer}  ${now}\n")
  install_compressed(${binary}/packaging/changelog.Debian changelog ${docdir})
endif()

# A configuration that somebody has edited stays.
function(install_configuration file name destination)
  if(EXISTS $ENV{DESTDIR}${destination}/${name})
    message(STATUS "Kept: $ENV{DESTDIR}${destination}/${name}")
  else()
    file(INSTALL ${file} DESTINATION ${destination} RENAME ${name})
  endif()
endfunction()
install_configuration(${source}/packaging/config/tandem.toml tandem.toml ${sysconfdir}/tandem)
install_configuration(${source}/packaging/config/tandem.default tandem ${sysconfdir}/default)
